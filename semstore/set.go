package semstore

import (
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// guardLook is how long the kernel waits at once for a program that opens the set too.
const guardLook = 50 * time.Millisecond

// join opens the set of key, or makes it, as PHP's sem_get does. errRemoved means that somebody
// removed the set meanwhile, and that join is worth another call. patience and over bound the wait
// for a program that opens the set too.
func join(key int32, patience time.Duration, over func() error) (id int, err error) {
	if id, err = find(key, true); err != nil {
		return 0, inSet(key, err)
	}
	if _, err := value(id, semCount); err == nil {
		return 0, fmt.Errorf("%w: semaphore %#x has more parts than PHP's: another program made it; rename the lock", driver.ErrUnavailable, uint32(key))
	}
	if err := enter(key, id, patience, over); err != nil {
		return 0, err
	}
	users, err := value(id, semUsers)
	if err == nil && users == 1 {
		err = setValue(id, semLock, 1)
	}
	if failed := operate(id, 0, operation{semGuard, -1, flagUndo | flagNoWait}); err == nil {
		err = failed
	}
	return id, inSet(key, err)
}

// enter raises the guard and counts this program as a user of the set.
func enter(key int32, id int, patience time.Duration, over func() error) error {
	for end := time.Now().Add(patience); ; {
		err := operate(id, guardLook, operation{sem: semGuard}, operation{semGuard, 1, flagUndo}, operation{semUsers, 1, flagUndo})
		if err != errBusy && err != errInterrupted {
			return inSet(key, err)
		}
		if err := over(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: semaphore %#x: process %d began to open it and does not go on; continue that process, or end it",
				driver.ErrUnavailable, uint32(key), holder(id, semGuard))
		}
	}
}

// takeLock takes the lock of a set that was joined. errBusy means that it is held.
func takeLock(id int) error {
	return operate(id, 0, operation{semLock, -1, flagUndo | flagNoWait}, operation{semUsers, mark, flagUndo})
}

// await is takeLock, and waits for the lock, at most for patience.
func await(id int, patience time.Duration) error {
	return operate(id, patience, operation{semLock, -1, flagUndo}, operation{semUsers, mark, flagUndo})
}

// leave closes a set without its lock.
func leave(id int) { _ = operate(id, 0, operation{semUsers, -1, flagUndo | flagNoWait}) }

// giveBack frees the lock as PHP does: it removes the set. A set that another user made stays, and
// then only its lock is freed.
func giveBack(id int) error {
	err := remove(id)
	if err == errNotAllowed {
		err = putBack(id)
	}
	return err
}

func putBack(id int) error {
	return operate(id, 0, operation{semLock, 1, flagUndo | flagNoWait}, operation{semUsers, -1 - mark, flagUndo | flagNoWait})
}

// forfeit closes a set whose lock somebody freed by force, so that it may be another process's now.
// The kernel must not free that lock when this process ends: the two steps on it add up to nothing
// but take back the undo. They also make this process the last one that changed the lock, so a
// padlock that has it now finds its hold lost too: after such an act nobody can be sure.
func forfeit(id int) {
	_ = operate(id, 0, operation{semLock, 1, flagUndo | flagNoWait}, operation{semLock, -1, flagNoWait}, operation{semUsers, -1 - mark, flagUndo | flagNoWait})
}

// isHeld reports whether the lock of a set is held, by anybody.
func isHeld(id int) (bool, error) {
	free, err := value(id, semLock)
	if err != nil || free > 0 {
		return false, err
	}
	users, err := value(id, semUsers)
	return users > 0, err // without users it was never opened to the end
}

// isPadlock reports whether the lock of a set that is held is held by padlock.
func isPadlock(id int) bool {
	users, err := value(id, semUsers)
	return err == nil && users >= mark
}

// holder returns the process that changed a semaphore last, which for semLock is the holder if the
// lock is held; 0 if it cannot be seen from this pid namespace.
func holder(id, sem int) int {
	pid, err := lastPID(id, sem)
	if err != nil {
		return 0
	}
	return pid
}

// inSet says which set an error is about, unless the error is a result that the caller handles.
func inSet(key int32, err error) error {
	if err == nil || err == errRemoved {
		return err
	}
	return unavailable(key, err)
}

func unavailable(key int32, err error) error {
	if a := advice(err); a != "" {
		return fmt.Errorf("%w: semaphore %#x: %w: %s", driver.ErrUnavailable, uint32(key), err, a)
	}
	return fmt.Errorf("%w: semaphore %#x: %w", driver.ErrUnavailable, uint32(key), err)
}
