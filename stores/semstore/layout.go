package semstore

import "errors"

// PHP keeps a lock in a set of three semaphores. The first program that wants the lock makes the
// set, and the program that releases the lock removes it.
//
// The first three columns of this table are the values of the three semaphores. n is 1 or more. The
// third semaphore (semGuard) is 1 while a program is opening the set:
//
//	lock  users   guard  state    how the state begins                what ends it
//	0     0       0      new      semget made the set                 the next program opens it
//	0     1       1      opening  a program opens a new set           that program sets the lock to 1
//	1     n       1      opening  a program opens a set that is free  that program sets guard to 0
//	0     n       1      opening  a program opens a set that is held  that program sets guard to 0
//	1     n       0      open     n programs opened it, no holder     one of them takes the lock
//	0     n       0      held     one of n programs has the lock      its release, which removes the set
//	1     0       0      left     the set was left behind, see below  the next release of the name
//
// While padlock has the lock, the value of the semaphore "users" is higher by padlockMark.
//
// The kernel undoes the operations of a process that ends. If a process is killed while no other
// process has the set open, the set remains, and has no user:
//
//   - If the process had not finished opening a new set, the state is "new".
//   - Otherwise the lock is free, and the state is "left".
//
// A process that is not killed leaves no set behind: a release removes the set, and so does a
// caller that gives up while the lock is free (leaveSet). But a set that another Unix user made
// cannot be removed, so its state becomes "open", and "left" when nobody uses it any more. The same
// is true for every set of a store with NoHash, which removes none, as PHP's sem_release does not.
const (
	semLock  = 0 // 1 if the lock is free
	semUsers = 1 // how many programs have the set open
	semGuard = 2 // 1 while a program is opening the set
	semCount = 3
)

// padlockMark is the number that padlock adds to semUsers while it has the lock, so that others can
// see that the holder is padlock. PHP only compares semUsers with 1.
const padlockMark = 1000

// operation is the kernel's struct sembuf. When the process ends, the kernel reverses each
// operation whose flags include flagUndo. Go starts its threads with CLONE_SYSVSEM, so for the
// kernel all threads are one process.
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
