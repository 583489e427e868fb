package filestore

import (
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// refusal says why a try failed. The zero refusal means that another process has the lock.
type refusal struct {
	cooling bool          // the name cools down, or has a lease
	shared  bool          // the name cools down, and the caller is a reader
	intent  uint64        // the id of the reader that is being promoted, or 0
	left    time.Duration // after this time at the latest, a try may succeed; 0 if unknown
	queued  bool          // the lock is free, but waiters may go first
	behind  bool          // readers have the lock, but a waiting writer goes first
}

func (*refusal) Error() string { return "refused" }

// admits returns nil if the record of a file allows a hold. Otherwise it returns a refusal, or the
// error of hands.
func (r *record) admits(path string, shared bool, wall time.Time) error {
	if err := r.hands(path); err != nil || !r.valid {
		return err
	}
	if left := r.intentEnd.timeLeft(wall); r.intent != 0 && left > 0 {
		return &refusal{intent: r.intent, left: left}
	}
	if no := coolingFor(r, shared, wall); no != nil {
		return no
	}
	return nil
}

// coolingFor returns nil if no cool-down and no lease keeps the name, and otherwise a refusal.
func coolingFor(rec *record, shared bool, wall time.Time) *refusal {
	end := rec.cool
	if shared {
		end = rec.coolEnd() // a reader joins detached readers
	}
	if left := end.timeLeft(wall); left > 0 {
		return &refusal{cooling: true, shared: shared, left: left}
	}
	return nil
}

// insist calls tryLock up to three times. After a refusal, insist looks up who has the lock. If
// nobody seems to have the lock any more, insist tries again: somebody who looks at the lock may
// have it for an instant. Otherwise, and after the third refusal, insist returns a
// *driver.HeldError. Any other result of tryLock is returned at once.
//
// If the lock is free and others wait for it, insist pauses and tries again (see yield). Such tries
// do not count.
func (s *Store) insist(f *file, tryLock func() error) error {
	const tries = 3
	pause := recordPause
	for i := 1; ; {
		err := tryLock()
		no, refused := err.(*refusal)
		if !refused {
			return err
		}
		if no.queued {
			if err := s.pauseUnlocked(f, pause); err != nil {
				return err
			}
			pause *= 2
			continue
		}
		if err, isFinal := s.heldError(f, no); isFinal || i == tries {
			return err
		}
		i++
	}
}

// manners says how a caller has treated the waiters for the lock.
type manners struct {
	queued   bool // the kernel granted the lock after the caller stood in its queue
	tried    bool // this is not the caller's first try
	alone    bool // nobody stood in the queue just before this try
	gaveBack int  // how many times the caller gave the lock back because others wait
}

// maxGaveBack is how many times a caller gives back a free lock that others wait for. If none of
// them has taken it by then, they are stopped, and the caller keeps it. The pauses of insist take 6
// ms until then.
const maxGaveBack = 4

// letPass pauses before the first try if others stand in the kernel's queue. The lock may just have
// been given back, and the first of them wakes up now. A caller that takes the lock in that instant
// makes all of them queue again, in any order, even if it gives the lock back. The caller holds
// f.mu, which is unlocked during the pause.
func (s *Store) letPass(f *file, shared bool, m *manners) error {
	m.alone = false
	if !s.guarantees.FIFO || m.queued || m.tried {
		return nil
	}
	m.tried = true
	c, err := s.openSpare(f)
	if err != nil {
		return unavailable(f.path, err)
	}
	m.alone = !c.othersQueue(shared)
	f.keepSpare(c)
	if m.alone {
		return nil
	}
	return s.pauseUnlocked(f, recordPause)
}

// yield returns a refusal if the caller has just got the kernel's lock through c, but must let the
// waiters go first. A reader lets only writers go first, even if other readers have the lock.
func (s *Store) yield(c *conn, shared bool, m *manners) *refusal {
	if !s.guarantees.FIFO || m.queued || m.alone || !c.othersQueue(shared) {
		return nil
	}
	if shared && c.tryLock(false) != nil {
		return &refusal{behind: true}
	}
	if m.gaveBack < maxGaveBack || shared && c.tryLock(true) != nil {
		m.gaveBack++
		return &refusal{queued: true}
	}
	return nil
}

// pauseUnlocked sleeps for the given time. The caller holds f.mu, which is unlocked during the
// pause. Meanwhile a waiter that was woken can take the lock. A process that took the lock only to
// look at it can give the lock back.
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

// lockLease locks a file that has a lease or a cool-down, just as Store.lock does for other files.
// Normally, no process keeps such a file locked. But a process that checks whether the name is free
// locks the file for an instant, or for longer if the kernel suspends it just then. So lockLease
// tries up to ten times. The pauses between the tries double from one to the next, and take 0.2 s
// together.
func (s *Store) lockLease(f *file, shared bool, whileLocked func(*conn) error) (*conn, error) {
	const tries = 10
	for i := range tries - 1 {
		c, err := s.lock(f, shared, whileLocked)
		if no, refused := err.(*refusal); !refused || *no != (refusal{}) {
			return c, err
		}
		if err := s.pauseUnlocked(f, recordPause<<i); err != nil {
			return nil, err
		}
	}
	return s.lock(f, shared, whileLocked)
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
	if joinsReaders && last > above {
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
