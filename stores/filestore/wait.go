package filestore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A waiter stands in the kernel's queue for the lock (see blocked), together with PHP and flock(1).
// The kernel wakes the first of the queue when the lock is given back or its holder is killed. The
// lock is free until that waiter runs. The kernel gives it to any caller that asks in between, and
// it gives a shared lock to every reader while readers have it. So two rules are added:
//
//   - A caller that gets the lock without waiting, while others stand in the queue (see
//     conn.markQueued), gives the lock back and pauses (see yield). Otherwise a process that takes
//     the lock in a loop would overtake all others.
//   - A reader does not join other readers while a writer waits.
//
// These waiters poll instead: waiters for the end of a lease, of a cool-down or of an intent,
// because the file is not locked then; waiters that only want to know when the lock is free;
// readers that let a writer go first; and all waiters on systems without hasKernelQueue, on a
// network file system, and from the 65th waiter of a process on. The latter get threads in turn.
const (
	minPause = time.Millisecond      // the first pause of a waiter that polls
	maxPause = 50 * time.Millisecond // the longest such pause

	// While waiters without a thread poll, a waiter leaves its thread and its place after a turn,
	// and polls. Each further turn of the same wait is twice as long, up to maxTurn, so that a
	// waiter in a slow queue is served, too.
	minTurn = 2 * time.Second
	maxTurn = 32 * time.Second

	// pathCheck is how often a waiter in the kernel's queue checks that the file was not removed or
	// replaced.
	pathCheck = time.Second

	promotePause = 50 * time.Millisecond // the pause of a reader that waits to be promoted, on a system without a list of locks

	// reservation is how long the caller of Wait may rely on a reservation. The store keeps the
	// hold a little longer, for driver.MaxReservation.
	reservation = driver.MaxReservation - 50*time.Millisecond
)

// waiter is one call of Wait. Until it succeeds, it tries to take the lock (see try) or, if it only
// watches, checks whether the lock is free (see checkFree), and pauses after each refusal.
type waiter struct {
	f       *file
	r       *driver.Request
	watches bool // the waiter does not take the lock
	manners manners
	pause   time.Duration // the last pause; 0 before the first one
	turn    time.Duration // how long it keeps its thread if others seek one
}

// Wait implements driver.Waiter. If reserve is true, Wait takes the lock for the caller, as a
// reservation. If Guarantees.FIFO is true, waiters of all processes get the lock in about the order
// of their arrival.
//
// If reserve is false, Wait only watches the lock. In a container, or on a system without a list of
// locks, Wait has to try the lock to see whether it is free. If another process tries the lock at
// the same instant, that process is refused.
//
// On Linux, Wait sends signal 63 to its own thread to end a wait. A program should not use that
// signal for itself. While the program ignores it, waiters poll.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, err := s.beginCall(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.endCall(f)
	h := f.find(r.Token.Text())
	if h != nil && (h.reserved != nil || h.shared == r.Shared || r.Shared) {
		return driver.Grant{}, nil // the token already has the hold that it wants
	}
	w := &waiter{f: f, r: &r, watches: !reserve || h != nil}
	for {
		g, err := s.serve(ctx, w)
		no, refused := err.(*refusal)
		if !refused {
			return g, err
		}
		if err := s.pause(ctx, w, no); err != nil {
			return driver.Grant{}, err
		}
	}
}

// serve gives the waiter what it waits for, or returns a refusal. The caller holds f.mu, which is
// unlocked while the waiter stands in the kernel's queue.
func (s *Store) serve(ctx context.Context, w *waiter) (driver.Grant, error) {
	if err := s.refresh(w.f); err != nil {
		return driver.Grant{}, err
	}
	if w.watches {
		return driver.Grant{}, s.checkFree(w)
	}
	return s.reserve(ctx, w)
}

// pause waits until it is time to serve w again. Meanwhile a waiter that wants the lock has its mark
// on the file. The caller holds f.mu, which is unlocked during the pause.
func (s *Store) pause(ctx context.Context, w *waiter, no *refusal) error {
	f, freed := w.f, w.f.freed
	var marked *conn
	if w.watches {
		freed = nil
	} else if s.guarantees.FIFO && f.spare != nil {
		marked, f.spare = f.spare, nil
		marked.markPolling()
	}
	f.mu.Unlock()
	t := time.NewTimer(w.nextPause(no))
	select {
	case <-ctx.Done():
	case <-s.done:
	case <-freed:
	case <-t.C:
	}
	t.Stop()
	f.mu.Lock()
	err := s.waitOver(ctx)
	if marked != nil && err != nil {
		marked.close()
	} else if marked != nil {
		f.drop() // a call in the meantime may have opened another one
		f.spare = marked
		marked.unmark()
	}
	return err
}

// waitOver returns why a wait is over, or nil.
func (s *Store) waitOver(ctx context.Context) error {
	select {
	case <-s.done:
		return driver.ErrClosed
	default:
		return ctx.Err()
	}
}

// nextPause returns the length of the next pause. It is short at first and grows with each pause. It
// has a random part, so that two waiters do not try at the same time. If the reason for the refusal
// has a known end, the pause ends then.
func (w *waiter) nextPause(no *refusal) time.Duration {
	w.pause = min(max(2*w.pause, minPause), maxPause)
	if no.left > 0 {
		return min(no.left+time.Millisecond, maxPause)
	}
	return w.pause + rand.N(w.pause/2+1)
}

// reserve gets the lock for a waiter, or returns a refusal. The hold is a reservation: it ends
// after driver.MaxReservation unless the caller claims it with Acquire.
func (s *Store) reserve(ctx context.Context, w *waiter) (driver.Grant, error) {
	if err := s.recordAdmits(w.f, w.f.spare, w.r.Shared); err != nil {
		return driver.Grant{}, err
	}
	h, err := s.try(ctx, w.f, w.r, &w.manners)
	if no, refused := err.(*refusal); refused && *no == (refusal{}) && s.guarantees.FIFO && !noThread() {
		h, err = s.queueAndTry(ctx, w)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	name, from := w.r.Name, s.config.clock.Now()
	h.waited = true
	h.reserved = s.config.clock.AfterFunc(driver.MaxReservation, func() { s.unclaimed(name, h) })
	return driver.Grant{Fence: h.fence, From: from, TTL: reservation}, nil
}

// queueAndTry tries again when the kernel has granted the lock. Until then the waiter has a mark.
func (s *Store) queueAndTry(ctx context.Context, w *waiter) (h *hold, err error) {
	f := w.f
	if err = s.standInQueue(ctx, w); err == nil {
		h, err = s.try(ctx, f, w.r, &manners{queued: true})
	}
	if h != nil {
		h.conn.unmark()
	} else if f.spare != nil {
		f.spare.unlock()
		f.spare.unmark()
	}
	return h, err
}

// standInQueue returns nil when the spare descriptor of the file has the kernel's lock. It returns
// a refusal if the waiter must poll, or if the path leads to another file.
//
// A reader that stands in the queue gets the kernel's lock without the record lock. So that a
// promotion does not fail in that instant, the reader first sets its mark and then reads the
// record, and promote first writes its intent and then looks for marks.
func (s *Store) standInQueue(ctx context.Context, w *waiter) error {
	f, c := w.f, w.f.spare
	if c == nil {
		return &refusal{}
	}
	c.markQueued(w.r.Shared)
	if err := s.recordAdmits(f, c, w.r.Shared); err != nil {
		return err
	}
	b := block(c, w.r.Shared)
	if b == nil {
		return &refusal{}
	}
	f.spare = nil
	f.mu.Unlock()
	err := s.await(ctx, w, c, b)
	f.mu.Lock()
	if err != nil {
		return err
	}
	if err := s.waitOver(ctx); err != nil { // Close may have dealt with the file already
		c.unlock()
		c.close()
		return err
	}
	f.drop() // a call in the meantime may have opened another one
	f.spare = c
	return nil
}

// await waits for the lock that b waits for, or until the turn of w is over. After an error, c is
// closed.
func (s *Store) await(ctx context.Context, w *waiter, c *conn, b *blocked) error {
	t := time.NewTicker(pathCheck)
	defer t.Stop()
	w.turn = min(max(2*w.turn, minTurn), maxTurn)
	over := time.Now().Add(w.turn)
	for {
		select {
		case err := <-b.over:
			if err != nil {
				c.close()
				return unavailable(w.f.path, err)
			}
			return nil
		case <-ctx.Done():
			b.leave(c)
			return ctx.Err()
		case <-s.done:
			b.leave(c)
			return driver.ErrClosed
		case <-t.C:
			same, err := c.current()
			sought := time.Now().After(over) && time.Since(time.Unix(0, threadSought.Load())) < 2*maxPause
			if err == nil && !same || sought {
				b.leave(c)
				w.pause = maxPause // so that another waiter gets the thread
				return &refusal{}
			}
		}
	}
}

// unclaimed ends a reservation that was not claimed in time.
func (s *Store) unclaimed(name string, h *hold) {
	f, err := s.enter(name)
	if err != nil {
		return // Close has ended the reservation
	}
	defer s.endCall(f)
	if f.find(h.token) == h && h.reserved != nil {
		f.forget(h)
		s.letGo(f, h)
	}
}

// checkFree returns nil if the caller could get the lock now, and otherwise a refusal. If possible,
// it does so without trying to take the lock.
func (s *Store) checkFree(w *waiter) error {
	f, shared := w.f, w.r.Shared
	own := f.find(w.r.Token.Text())
	if own == nil {
		// The promotion of a reader checks the intent itself.
		if err := s.recordAdmits(f, f.spare, shared); err != nil {
			return err
		}
	} else if no := s.keptNow(f.spare); no != nil {
		return no
	}
	locks, complete, err := s.seen.locksOf(s.dir, f.spare)
	others := len(locks)
	if own != nil {
		others--
	}
	if shared {
		others = 0
		for _, l := range locks {
			if !l.shared {
				others++
			}
		}
	}
	switch {
	case err == nil && others > 0:
		return &refusal{}
	case err == nil && complete:
		return nil
	case own == nil:
		return s.checkByTrying(f, shared)
	case w.pause == 0:
		return &refusal{left: promotePause}
	}
	return nil
}

// checkByTrying takes the lock and gives it back, to find out whether the caller could get it now.
func (s *Store) checkByTrying(f *file, shared bool) error {
	c, err := s.lock(f, shared, func(c *conn) error { return s.recordAdmits(f, c, shared) })
	if err != nil {
		return err
	}
	f.unlockSpare(c)
	return nil
}

// recordAdmits is record.admits for the record in the file of c.
func (s *Store) recordAdmits(f *file, c *conn, shared bool) error {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	return b.read(c).admits(f.path, shared, s.config.wall())
}

// keptNow returns a refusal if a cool-down or a lease keeps others from the lock, and otherwise nil.
func (s *Store) keptNow(c *conn) *refusal {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	return coolingFor(b.read(c), false, s.config.wall())
}
