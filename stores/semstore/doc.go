// Package semstore keeps locks in System V semaphores, exactly as PHP's Symfony does
// (SemaphoreStore), or as PHP does with sem_get and a number ([NoHash]). Use it for programs that
// share such locks on one Linux machine. For everything else, use package filestore instead: it has
// holders' names, fences, shared holds and cool-downs, and waiters get the lock in order.
//
//	store, err := semstore.Open(semstore.XXH128) // as Symfony 6.3 and later names semaphores
//
// A hold belongs to the process: the kernel frees it when the process ends, even if the process is
// killed. So there are no leases, and nothing is renewed. The semaphore contains the process id of
// the holder. It contains no name of the lock and nothing else about the holder.
//
// docs/stores/semaphore.md lists the promises and their limits.
//
// It is a guest: see docs/which-store.md, "Core stores and guests".
package semstore
