package filestore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// The kernel tells nobody that a lock was given back. So those who wait ask to
// be told that the lock file was closed or touched (inotify), leave word in the
// file's size, and look at the lock. Whoever gives a lock back and finds the
// word touches the file. (He reads the size just before, as he has to know
// whether the file was removed; a word left in between is made up for by the
// next look.) Foreign parties close the file as a rule. Who does neither is
// found by a look now and then.
const (
	firstLook   = time.Millisecond       // after a wake-up that came too soon: files are closed before they are unlocked
	slowLook    = 250 * time.Millisecond // where wake-ups come
	pollLook    = 50 * time.Millisecond  // where none come
	gentleLook  = 4 * time.Millisecond   // after another waiter went to try for itself
	coolLook    = 10 * time.Second       // while the name cools down
	promoteLook = 50 * time.Millisecond  // for a reader who waits to be promoted

	// A reservation ends a little before the hold does, so that its owner
	// never believes in it for too long.
	reservation = driver.MaxReservation - 50*time.Millisecond
)

// Wait implements driver.Waiter. With reserve it returns the hold itself, as a
// reservation; without, it has had the lock for an instant when it returns, and
// a try of another process in that instant fails. Waiters of one store get their
// turn in order; those of several compete.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	f, err := s.begin(ctx, r.Name)
	if err != nil {
		return driver.Grant{}, err
	}
	h := f.find(r.Token)
	if h != nil && (h.reserved != nil || h.shared == r.Shared || r.Shared) {
		s.leave(f)
		return driver.Grant{}, nil // it has what it wants
	}
	w := newWaiter(h != nil)
	f.queue.join(w)
	s.leave(f)

	g, err := s.wait(ctx, f, w, &r, reserve)
	f.queue.leave(w, err == nil && g.Fence == 0)
	if f, err := s.enter(r.Name); err == nil {
		if f.queue.empty() {
			s.notify.unwatch(f)
		}
		s.leave(f) // which forgets the file if nobody uses it any more
	}
	return g, err
}

func (s *Store) wait(ctx context.Context, f *file, w *waiter, r *driver.Request, reserve bool) (driver.Grant, error) {
	pause := pacer{first: s.config.firstLook, slow: s.config.slowLook}
	for {
		next, first := time.Hour, false
		if w.promote {
			done, err := s.lookForPromotion(f, &pause)
			if done || err != nil {
				return driver.Grant{}, err
			}
			next = promoteLook
		} else if first, pause.gently = f.queue.turn(w); first && !pause.gently {
			l, err := s.look(ctx, f, r, reserve)
			if l.done || err != nil {
				return l.grant, err
			}
			next = pause.next(l)
		} else if first {
			next = gentleLook
		}
		if err := s.pause(ctx, w, next, &pause); err != nil {
			return driver.Grant{}, err
		}
	}
}

// pause waits to be woken, for d at most.
func (s *Store) pause(ctx context.Context, w *waiter, d time.Duration, p *pacer) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return driver.ErrClosed
	case <-w.wake:
		p.delay, p.woken = 0, true
	case <-t.C:
	}
	return nil
}

// pacer says when to look again.
type pacer struct {
	first, slow time.Duration
	delay       time.Duration // the last
	gently      bool
	woken       bool
}

// next returns the time to the next look: short at first, then longer and
// longer, never the same for two waiters, and not before it can help.
func (p *pacer) next(l look) time.Duration {
	limit := pollLook
	if l.told {
		limit = p.slow
	}
	p.delay = min(max(4*p.delay, p.first), limit)
	switch no := l.refusal; {
	case no.cooling:
		return min(no.left+time.Millisecond, coolLook) // nobody ends it early
	case no.left > 0:
		return min(no.left+time.Millisecond, limit)
	}
	return p.delay + rand.N(p.delay/2+1)
}

// look is what a waiter found.
type look struct {
	done    bool
	grant   driver.Grant
	refusal *refusal // if not done
	told    bool     // wake-ups come
}

// look subscribes to wake-ups, then tries the lock, so that a release between
// the two is not missed.
func (s *Store) look(ctx context.Context, f *file, r *driver.Request, reserve bool) (l look, err error) {
	if f, err = s.begin(ctx, r.Name); err != nil {
		return l, err
	}
	defer s.leave(f)
	for {
		told, err := s.subscribe(f)
		if err != nil {
			return l, err
		}
		l.told = told
		l.grant, err = s.tryForWaiter(ctx, f, r, reserve)
		no, refused := err.(*refusal)
		if !refused {
			l.done = true
			return l, err
		}
		if told && !s.notify.watches(f) {
			continue // another file stands there by now
		}
		l.refusal = no
		return l, nil
	}
}

// tryForWaiter makes one try. Without reserve it gives back what it got.
func (s *Store) tryForWaiter(ctx context.Context, f *file, r *driver.Request, reserve bool) (driver.Grant, error) {
	if !reserve {
		return driver.Grant{}, s.probe(f, r.Shared)
	}
	plain := *r
	plain.AtLeast = 0 // is armed by the claim
	h, err := s.try(ctx, f, &plain)
	if err != nil {
		return driver.Grant{}, err
	}
	from := s.config.clock.Now()
	h.waited = true
	h.reserved = s.config.clock.AfterFunc(driver.MaxReservation, func() { s.unclaimed(r.Name, h) })
	return driver.Grant{Fence: h.fence, From: from, TTL: reservation}, nil
}

// unclaimed ends a reservation that nobody claimed.
func (s *Store) unclaimed(name string, h *hold) {
	f, err := s.enter(name)
	if err != nil {
		return // Close has ended it
	}
	defer s.leave(f)
	if f.find(h.token) == h && h.reserved != nil {
		f.forget(h)
		s.letGo(f, h)
	}
}

// probe finds out whether a try would succeed.
func (s *Store) probe(f *file, shared bool) error {
	c, err := s.lock(f, shared, func(c *conn) error {
		b := buffers.Get().(*buffer)
		defer buffers.Put(b)
		if no := admit(b.read(c), shared, s.config.wall()); no != nil {
			return no
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.unlock()
	f.keep(c)
	return nil
}

// lookForPromotion returns when another reader may have gone: after any
// wake-up, or a while.
func (s *Store) lookForPromotion(f *file, p *pacer) (done bool, err error) {
	if p.woken || p.delay > 0 {
		return true, nil
	}
	p.delay = promoteLook
	if f, err = s.enter(f.name); err != nil {
		return false, err
	}
	defer s.leave(f)
	_, err = s.subscribe(f)
	return false, err
}

// subscribe asks to be woken and leaves word in the file. told is false where
// that is not possible.
func (s *Store) subscribe(f *file) (told bool, err error) {
	if f.spare == nil {
		if f.spare, err = s.openPath(f.path); err != nil {
			f.spare = nil
			return false, unavailable(f.path, err)
		}
	}
	if !s.notify.watch(f, f.spare) {
		return false, nil
	}
	return leaveWord(f.spare), nil
}
