package filestore

import (
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// refusal says why a try failed. The zero refusal means that another process has the lock.
type refusal struct {
	cooling bool
	intent  uint64        // the intent of the reader that is being promoted, or 0
	left    time.Duration // the reason lasts no longer than this; 0 if unknown
	queued  bool          // another waiter is about to get the lock
	again   bool          // another try at once may succeed
}

func (*refusal) Error() string { return "refused" }

// admit checks whether the record of a file allows a hold. The caller has the kernel's lock on the
// file. admit returns nil if the record allows the hold, and otherwise the reason why not.
func admit(rec *record, shared bool, wall time.Time) *refusal {
	if !rec.valid {
		return nil
	}
	if left := rec.intentEnd.timeLeft(wall); rec.intent != 0 && left > 0 {
		return &refusal{intent: rec.intent, left: left}
	}
	left := rec.cool.timeLeft(wall)
	if !shared {
		left = max(left, rec.readCool.timeLeft(wall))
	}
	if left > 0 {
		return &refusal{cooling: true, left: left}
	}
	return nil
}

// insist tries up to three times to take the lock, because another process may have the lock only
// for an instant. Each attempt is one call of tryLock. If an attempt succeeds, or fails with any
// error other than a *refusal, insist returns its result. After a *refusal, insist looks up who has
// the lock, and returns a *driver.HeldError after the last attempt. It stops earlier if it has
// found a holder.
func (s *Store) insist(f *file, tryLock func() error) error {
	const tries = 3 // several, because a waiter that looks at the lock has it for an instant
	for i := 1; ; i++ {
		err := tryLock()
		no, refused := err.(*refusal)
		if !refused {
			return err
		}
		if err, sure := s.heldError(f, no); sure || i == tries {
			return err
		}
		if no.queued {
			if err := s.pauseUnlocked(f, recordPause); err != nil {
				return err
			}
		}
	}
}

// pauseUnlocked unlocks f.mu, sleeps for the given time, and locks f.mu again. The caller holds
// f.mu. During the pause, a waiter that was woken can take the lock, so that the next try finds
// this waiter as the holder. A process that took the lock only to look at it can give the lock
// back.
func (s *Store) pauseUnlocked(f *file, pause time.Duration) error {
	f.mu.Unlock() // the waiter that was woken may belong to this store
	time.Sleep(pause)
	f.mu.Lock()
	select {
	case <-s.done:
		return driver.ErrClosed
	default:
		return nil
	}
}

// mint returns the fence of a new grant. A fence is a number that grows from grant to grant, so
// that a resource can refuse requests of an earlier holder.
//
// A reader that joins other readers gets their fence, so that the resource accepts the requests of
// all of them. The argument joinsReaders is true for such a reader. The first reader after a writer
// gets a greater fence than the writer, because the writer may not have noticed yet that it lost
// the lock.
//
// The result mustStore is true if the caller must write the fence into the file. A fence that
// equals the clock's time need not be written, because the clock makes the next fence greater
// anyway.
func mint(last, above uint64, joinsReaders bool, wall time.Time) (fence uint64, mustStore bool, err error) {
	if joinsReaders && last > above && last > 0 {
		return last, false, nil
	}
	floor := last + 1
	if above > 0 {
		floor = max(floor, above+1)
	}
	clock := uint64(max(wall.UnixMicro(), 0))
	fence = max(floor, clock)
	if fence >= driver.MaxFence {
		return 0, false, fmt.Errorf("%w, or remove its lock file when nobody holds it", driver.ErrFencesUsedUp)
	}
	return fence, fence > clock, nil
}
