package filestore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The kernel wakes no waiter when a lock is given back. So the waiters have a queue in the lock
// file (see ticketQueue), and a process that gives the lock back wakes the first of them. No
// wake-up is lost: a waiter takes its ticket before it tries the lock, and a process that gives the
// lock back unlocks it before it looks at the queue.
//
// No process sends a wake-up if the holder is killed, or if the holder is a program other than
// padlock. To notice that the lock is free, the first waiter watches the lock in three ways:
//
//   - It asks the kernel to wake it when the lock file is closed or touched (inotify).
//   - It sets the file's size to sizeWaited. Then even an older version of padlock touches the file
//     when it gives the lock back.
//   - It looks at the lock now and then.
//
// The other waiters with tickets only look at the lock now and then, in case the waiters ahead of
// them are dead or stopped. A waiter without a ticket watches the lock as the first waiter does. So
// does a waiter that does not take the lock itself, but only wants to know when the lock is free.
//
// The first five constants are about the pauses between two looks at the lock.
const (
	// firstLook is the first pause. It is short, because the kernel first reports that a file was
	// closed, and then unlocks the file. A waiter that is woken by that report may find the lock
	// held, and must look again soon.
	firstLook = time.Millisecond

	slowLook = 250 * time.Millisecond // the longest pause of a waiter that will be woken
	pollLook = 50 * time.Millisecond  // the longest pause of a waiter that will not be woken
	coolLook = 10 * time.Second       // the longest pause while the name cools down

	// If other waiters are ahead of a waiter, it pauses for about slowLook for each of them. The
	// longest such pause is behindLooks times slowLook.
	behindLooks = 4

	// headPatience is how long the lock may stay free while its first waiter is alive but does not
	// take it. After that, the waiter's process counts as stopped and loses all its places.
	headPatience = 500 * time.Millisecond

	promoteLook = 50 * time.Millisecond // the pause of a reader that waits to be promoted, on a system without a list of locks

	// reservation is how long the caller of Wait may rely on a reservation. The store keeps the
	// hold a little longer, for driver.MaxReservation.
	reservation = driver.MaxReservation - 50*time.Millisecond
)

// Wait implements driver.Waiter. If reserve is true, Wait takes the lock for the caller, as a
// reservation. If Guarantees.FIFO is true, waiters of all processes get the lock in the order of
// their arrival.
//
// If reserve is false, Wait only watches the lock. In a container, or on a system without a list of
// locks, Wait has to try the lock to see whether it is free. If another process tries the lock at
// the same instant, that process is refused.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, err := s.beginCall(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	h := f.find(r.Token)
	if h != nil && (h.reserved != nil || h.shared == r.Shared || r.Shared) {
		s.endCall(f)
		return driver.Grant{}, nil // the token already has the hold that it wants
	}
	w := newWaiter(!reserve || h != nil)
	w.shared = r.Shared
	f.queue.join(w)
	if s.refresh(f) == nil {
		_ = s.enlist(f, w) // if this fails, the first look reports the error
	}
	s.endCall(f)

	g, err := s.wait(ctx, f, w, &r)
	f.queue.leaveQueue(w)
	s.delist(w, err == nil)
	if f, err := s.enter(r.Name); err == nil {
		if f.queue.len() == 0 {
			s.notify.unwatch(f)
		}
		s.endCall(f) // this forgets the file if nothing uses it any more
	}
	return g, err
}

func (s *Store) wait(ctx context.Context, f *file, w *waiter, r *driver.Request) (driver.Grant, error) {
	p := pacer{first: s.config.firstLook, slow: s.config.slowLook}
	for {
		next := time.Hour
		if f.queue.mayLook(w) {
			l, err := s.lookAtLock(ctx, w, r)
			if l.done || err != nil {
				return l.grant, err
			}
			next = p.nextPause(l)
		}
		if err := s.pause(ctx, w, next, &p); err != nil {
			return driver.Grant{}, err
		}
	}
}

// pause waits until w is woken, but no longer than d.
func (s *Store) pause(ctx context.Context, w *waiter, d time.Duration, p *pacer) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return driver.ErrClosed
	case <-w.wake:
		p.delay = 0
	case <-t.C:
	}
	return nil
}

// pacer computes when a waiter looks at the lock again.
type pacer struct {
	first, slow time.Duration
	delay       time.Duration // the last delay
}

// nextPause returns the time until the next look. It is short at first and grows with each look. It
// has a random part, so that two waiters do not look at the same time. If the reason for the
// refusal has a known end, the next look waits for that end.
func (p *pacer) nextPause(l lookResult) time.Duration {
	limit := pollLook
	if l.ahead > 0 {
		return p.pauseBehind(l)
	}
	if l.subscribed {
		limit = p.slow
	}
	p.delay = min(max(4*p.delay, p.first), limit)
	switch no := l.refusal; {
	case no.cooling:
		return min(no.left+time.Millisecond, coolLook) // a cool-down rarely ends early
	case no.left > 0:
		return min(no.left+time.Millisecond, limit)
	}
	return p.delay + rand.N(p.delay/2+1)
}

// pauseBehind does the same as nextPause, but for a waiter that is not the first. Such a waiter is
// woken when its turn comes. It looks at the lock only in case the processes ahead of it are dead
// or stopped.
func (p *pacer) pauseBehind(l lookResult) time.Duration {
	p.delay = p.slow // used once the waiter is the first
	d := time.Duration(min(l.ahead, behindLooks)) * p.slow
	switch no := l.refusal; {
	case no.cooling:
		d = min(d+no.left, coolLook)
	case no.queued && no.left > 0 && l.ahead == 1: // the first waiter may turn out to be stopped
		d = min(d, no.left+time.Millisecond)
	}
	return d + rand.N(d/8+1)
}

// lookResult is what a waiter found out when it looked at the lock.
type lookResult struct {
	done       bool
	grant      driver.Grant
	refusal    *refusal // why the lock was refused; nil if done is true
	subscribed bool     // the kernel will wake the waiter; see subscribe
	ahead      int      // how many waiters with tickets are ahead of this one
}

// lookAtLock tries the lock. A waiter that has no ticket, or the first ticket, subscribes to
// wake-ups before its last try. So it misses no release between that try and its subscription.
func (s *Store) lookAtLock(ctx context.Context, w *waiter, r *driver.Request) (l lookResult, err error) {
	f, err := s.beginCall(ctx, r.Name)
	if err != nil {
		return l, err
	}
	defer s.endCall(f)
	w.looks++
	s.looks.Add(1)
	for {
		if err := s.refresh(f); err != nil {
			return l, err
		}
		if err := s.enlist(f, w); err != nil {
			return l, err
		}
		if w.ticket.queue == nil || l.subscribed {
			l.subscribed = s.subscribe(f)
		}
		if w.aside {
			err = s.peek(f, w, r)
		} else {
			l.grant, err = s.reserve(ctx, f, w, r)
		}
		no, refused := err.(*refusal)
		if !refused {
			l.done = true
			return l, err
		}
		l.refusal = no
		if again := s.triesAgain(f, w, &l); !again {
			return l, nil
		}
	}
}

// triesAgain is called after a try that failed. It reports whether another try should follow at
// once.
func (s *Store) triesAgain(f *file, w *waiter, l *lookResult) (again bool) {
	if w.ticket.queue == nil {
		return l.subscribed && !s.notify.watches(f) // true if the path leads to another file by now
	}
	if s.stale(f, w) {
		return true
	}
	if !l.refusal.queued {
		w.noteHeld()
	}
	l.ahead = s.position(w)
	f.queue.setTicket(w, true, l.ahead == 0)
	switch {
	case l.ahead > 0:
		return false
	case !l.subscribed:
		l.subscribed = s.subscribe(f)
		return l.subscribed
	}
	return l.refusal.queued || !s.notify.watches(f)
}

// reserve tries once to get the lock. If the try succeeds, the hold is a reservation: it ends after
// driver.MaxReservation unless the caller claims it with Acquire.
func (s *Store) reserve(ctx context.Context, f *file, w *waiter, r *driver.Request) (driver.Grant, error) {
	f.asking = w
	h, err := s.try(ctx, f, r)
	f.asking = nil
	if err != nil {
		return driver.Grant{}, err
	}
	from := s.config.clock.Now()
	h.waited = true
	h.reserved = s.config.clock.AfterFunc(driver.MaxReservation, func() { s.unclaimed(r.Name, h) })
	return driver.Grant{Fence: h.fence, From: from, TTL: reservation}, nil
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

// peek finds out whether the caller could get the lock now. If possible, it does so without trying
// to take the lock.
func (s *Store) peek(f *file, w *waiter, r *driver.Request) error {
	own := f.find(r.Token)
	if no := s.peekRecord(f, r, own != nil); no != nil {
		return no
	}
	locks, complete, err := s.seen.locksOf(s.dir, f.spare)
	others := len(locks)
	if own != nil {
		others--
	}
	if r.Shared {
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
		return s.probe(f, r.Shared)
	case w.looks == 1:
		return &refusal{left: promoteLook}
	}
	return nil
}

// peekRecord returns a refusal if the file shows a cool-down, a promotion that is under way, or a
// waiter that is about to get the lock. If the caller is a reader that waits to be promoted,
// peekRecord returns nil, because the promotion itself checks all this.
func (s *Store) peekRecord(f *file, r *driver.Request, promote bool) *refusal {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	n, _ := f.spare.pread(b.in[:], 0)
	b.rec.decode(b.in[:n])
	if promote {
		return nil
	}
	if no := admit(&b.rec, s.config.wall()); no != nil {
		return no
	}
	if s.someoneWaits(f) {
		return &refusal{queued: true}
	}
	return nil
}

// probe tries to take the lock, to find out whether the caller could get it now. If the try
// succeeds, probe gives the lock back.
func (s *Store) probe(f *file, shared bool) error {
	c, err := s.lock(f, shared, func(c *conn) error {
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		if no := admit(b.read(c), s.config.wall()); no != nil {
			return no
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.unlock()
	f.keepSpare(c)
	return nil
}

// subscribe arranges that the waiters of f are woken when something happens to the file. It asks
// the kernel for notices, and it changes the file's size to tell other processes that a process
// waits. It returns false if one of these is not possible.
func (s *Store) subscribe(f *file) bool {
	return s.notify.watch(f, f.spare) && markWaited(f.spare)
}
