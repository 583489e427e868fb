package semstore

import "errors"

// PHP keeps a lock in a set of three semaphores. The first program that wants the lock makes the
// set, and the program that releases the lock removes it.
const (
	semLock  = 0 // 1 if the lock is free
	semUsers = 1 // how many programs have the set open
	semGuard = 2 // 1 while a program is opening the set
	semCount = 3
)

// mark is what padlock adds to semUsers while it has the lock, so that others can see that the
// holder is padlock. PHP only compares semUsers with 1.
const mark = 1000

// operation is struct sembuf. When the process ends, the kernel reverses the operations with
// flagUndo. Go starts its threads with CLONE_SYSVSEM, so for the kernel all threads are one
// process.
type operation struct {
	sem   uint16
	add   int16
	flags int16
}

// Results of operations on a set.
var (
	errRemoved     = errors.New("the semaphore was removed")
	errBusy        = errors.New("the semaphore is busy")
	errInterrupted = errors.New("interrupted by a signal")
	errNotAllowed  = errors.New("another user made the semaphore")
)
