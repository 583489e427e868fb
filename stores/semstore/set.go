package semstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// guardLook is how long one system call waits for another program that is opening the set.
const guardLook = 50 * time.Millisecond

// join opens the set of key, as PHP's sem_get does. It makes the set if there is none. errRemoved
// means that somebody removed the set meanwhile; the caller may call join again. If another program
// is opening the set, join waits for it, but gives up after maxWait, or when checkEnd returns an
// error.
func (s *Store) join(key int32, maxWait time.Duration, checkEnd func() error) (id int, err error) {
	if id, err = find(key, true); err != nil {
		return 0, inSet(key, err)
	}
	if err := s.checkSet(key, id); err != nil {
		return 0, err
	}
	if err := enter(key, id, maxWait, checkEnd); err != nil {
		return 0, err
	}
	users, err := value(id, semUsers)
	if err == nil && users == 1 {
		err = setValue(id, semLock, 1)
	}
	if failed := operate(id, 0, operation{semGuard, -1, flagUndo | flagNoWait}); err == nil {
		err = failed
	}
	places, unread := value(id, semLock)
	if err == nil {
		err = unread
	}
	if err == nil && places > 1 {
		_ = operate(id, 0, operation{semUsers, -1, flagUndo | flagNoWait})
		return 0, fmt.Errorf("%w: semaphore %#x has several places: another program opened it with a higher max_acquire; use another key", driver.ErrUnavailable, uint32(key))
	}
	return id, inSet(key, err)
}

// checkSet returns an error if another program made the set, so that padlock neither changes nor
// removes it. A set of PHP or padlock has three semaphores whose values are a row of the table in
// layout.go. PHP's Symfony and padlock let everybody use it, while a set of PHP's sem_get has the
// permissions that its caller wants.
func (s *Store) checkSet(key int32, id int) error {
	refuse := func(what string) error {
		return fmt.Errorf("%w: semaphore %#x %s: another program made it, and padlock leaves it alone; rename the lock", driver.ErrUnavailable, uint32(key), what)
	}
	if _, err := value(id, semCount); err == nil {
		return refuse("has more parts than PHP's")
	}
	now, err := values(id)
	if err != nil {
		return inSet(key, err)
	}
	mode, err := mode(id)
	switch lock, users, guard := now[semLock], now[semUsers], now[semGuard]; {
	case err != nil:
		return inSet(key, err)
	case lock > 1 && s.config.keep:
		return refuse("has several places, as sem_get with a higher max_acquire makes them")
	case lock > 1 || guard > 1 || guard == 1 && users == 0:
		return refuse(fmt.Sprintf("has the values %d, which no lock has", now))
	case mode != permissions && !s.config.keep:
		return refuse(fmt.Sprintf("has the permissions %#o", mode))
	}
	return nil
}

// enter waits until no other program is opening the set. Then it sets semGuard to 1, which keeps
// other programs from opening the set, and adds 1 to semUsers, the number of programs that use the
// set.
func enter(key int32, id int, maxWait time.Duration, checkEnd func() error) error {
	for end := time.Now().Add(maxWait); ; {
		err := operate(id, guardLook, operation{sem: semGuard}, operation{semGuard, 1, flagUndo}, operation{semUsers, 1, flagUndo})
		if err != errBusy && err != errInterrupted {
			return inSet(key, err)
		}
		if err := checkEnd(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: semaphore %#x: process %d began to open it and does not go on; continue that process, or end it",
				driver.ErrUnavailable, uint32(key), holder(id, semGuard))
		}
	}
}

// takeLock takes the lock of a set. The caller has opened the set with join. takeLock returns
// errBusy if the lock is held.
func takeLock(id int) error {
	return operate(id, 0, operation{semLock, -1, flagUndo | flagNoWait}, operation{semUsers, padlockMark, flagUndo})
}

// await waits for the lock of a set, but at most for maxWait, and takes it. The caller has opened
// the set with join.
func await(id int, maxWait time.Duration) error {
	return operate(id, maxWait, operation{semLock, -1, flagUndo}, operation{semUsers, padlockMark, flagUndo})
}

// leaveSet closes the set for a caller that gives up without having the lock. If the lock is free,
// this caller may be the last program that has the set open. Nobody else would remove the set then.
// So leaveSet takes the lock if it is free, and removes the set as a release does.
func (s *Store) leaveSet(id int) {
	if !s.config.keep && takeLock(id) == nil {
		_ = s.giveBack(id) // an error means that somebody else removed the set
		return
	}
	_ = operate(id, 0, operation{semUsers, -1, flagUndo | flagNoWait})
}

// giveBack releases the lock as PHP's Symfony does, by removing the set. If another Unix user made
// the set, this process is not allowed to remove it. Then, and with NoHash, giveBack keeps the set,
// and marks the lock in it as free.
func (s *Store) giveBack(id int) error {
	if s.config.keep {
		return putBack(id)
	}
	err := remove(id)
	if err == errNotAllowed {
		err = putBack(id)
	}
	return err
}

func putBack(id int) error {
	return operate(id, 0, operation{semLock, 1, flagUndo | flagNoWait}, operation{semUsers, -1 - padlockMark, flagUndo | flagNoWait})
}

// forfeit closes a set whose lock somebody freed by force. Another process may have the lock now,
// so forfeit must not change the value of the lock. But this process took the lock with flagUndo.
// So the kernel would free the lock when this process ends.
//
// forfeit cancels that undo: it adds 1 to the lock with flagUndo. Then it subtracts 1 without
// flagUndo, to restore the value.
//
// After that, this process counts as the last one that changed the lock. If another padlock process
// has the lock now, that process finds its hold lost, too. That is intended: after a lock was freed
// by force, nobody can be sure of it.
func forfeit(id int) {
	_ = operate(id, 0, operation{semLock, 1, flagUndo | flagNoWait}, operation{semLock, -1, flagNoWait}, operation{semUsers, -1 - padlockMark, flagUndo | flagNoWait})
}

// isHeld reports whether any process holds the lock of a set.
func isHeld(id int) (bool, error) {
	free, err := value(id, semLock)
	if err != nil || free > 0 {
		return false, err
	}
	users, err := value(id, semUsers)
	return users > 0, err // if the set has no users, no program has finished opening it
}

// isHeldBy is isHeld for a set that this store has not opened.
func (s *Store) isHeldBy(key int32, id int) (bool, error) {
	if err := s.checkSet(key, id); err != nil {
		return false, err
	}
	return isHeld(id)
}

// isForeign reports whether another program than padlock is the holder of a set that is held. If
// the set cannot be read, nothing is known of the holder.
func isForeign(id int) bool {
	users, err := value(id, semUsers)
	return err == nil && users < padlockMark
}

// holder returns the id of the process that last changed a semaphore. If the semaphore is semLock
// and the lock is held, that process is the holder of the lock. If the process is not visible from
// this pid namespace, holder returns 0.
func holder(id, sem int) int {
	pid, err := lastPID(id, sem)
	if err != nil {
		return 0
	}
	return pid
}

// inSet names the set in the text of an error. It does not change errRemoved, because the callers
// handle that error.
func inSet(key int32, err error) error {
	if err == nil || err == errRemoved || errors.Is(err, driver.ErrUnavailable) {
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
