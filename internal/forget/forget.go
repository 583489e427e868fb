// Package forget lets package padlockapi end a hold in this process while the store keeps the lock.
package forget

// Hold takes a *padlock.Lock that was exported. It ends the hold in this process with ErrClosed, as
// Locker.Close does, so that the Locker keeps nothing of it in memory. The store keeps the lock.
// Package padlock sets Hold.
var Hold func(lock any)
