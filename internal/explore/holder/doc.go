// Package holder explores the holder's half of a lock: the Locker itself, with its goroutines and
// timers, on a store whose every request stops until the explorer says what becomes of it.
// docs/internals/every-order.md says what was explored.
package holder
