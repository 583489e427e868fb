package semstore

import "errors"

// PHP keeps a lock in a set of three semaphores. The set is made by the first program that wants
// the lock, and removed by the one that gives the lock back.
const (
	semLock  = 0 // 1 if the lock is free
	semUsers = 1 // programs that have the set open
	semGuard = 2 // 1 while a program opens the set
	semCount = 3
)

// mark is what padlock adds to semUsers while it has the lock, so that others see that the holder
// is padlock. PHP only compares semUsers with 1.
const mark = 1000

// operation is struct sembuf. The kernel reverses operations with flagUndo when the process ends.
// Go starts its threads with CLONE_SYSVSEM, so that "the process" is all threads together.
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
