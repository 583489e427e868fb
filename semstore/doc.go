// Package semstore keeps locks in System V semaphores, exactly as PHP's Symfony does
// (SemaphoreStore). It is for programs that share such locks on one Linux machine. For everything
// else package filestore is better: its holders have names, fences, shared holds and cool-downs,
// and waiters get the lock in order.
//
//	store, err := semstore.Open(semstore.XXH128) // as Symfony 6.3 and later names semaphores
//
// A hold belongs to the process: the kernel frees it when the process ends, however it ends. So
// there are no leases, and nothing is renewed. Neither the name of a lock nor anything about its
// holder is in the semaphore, except the number of the process.
//
// docs/stores/semaphore.md lists what is promised and what is not.
package semstore
