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
	coolLook    = 10 * time.Second       // while the name cools down
	promoteLook = 50 * time.Millisecond  // for a reader who waits to be promoted, where no list of locks tells

	// A reservation ends a little before the hold does, so that its owner
	// never believes in it for too long.
	reservation = driver.MaxReservation - 50*time.Millisecond
)

// Wait implements driver.Waiter. With reserve it returns the hold itself, as a
// reservation. Waiters of one store get their turn in order; those of several
// compete. Without reserve it takes nothing, except in a container or on a
// system without a list of locks: there it has the lock for an instant when it
// finds the name free, and a try of another process in that instant fails.
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
	w := newWaiter(!reserve || h != nil)
	f.queue.join(w)
	s.leave(f)

	g, err := s.wait(ctx, f, w, &r)
	f.queue.leave(w)
	if f, err := s.enter(r.Name); err == nil {
		if f.queue.len() == 0 {
			s.notify.unwatch(f)
		}
		s.leave(f) // which forgets the file if nobody uses it any more
	}
	return g, err
}

func (s *Store) wait(ctx context.Context, f *file, w *waiter, r *driver.Request) (driver.Grant, error) {
	p := pacer{first: s.config.firstLook, slow: s.config.slowLook}
	for {
		next := time.Hour
		if f.queue.turn(w) {
			l, err := s.look(ctx, w, r)
			if l.done || err != nil {
				return l.grant, err
			}
			next = p.next(l)
		}
		if err := s.pause(ctx, w, next, &p); err != nil {
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
		p.delay = 0
	case <-t.C:
	}
	return nil
}

// pacer says when to look again.
type pacer struct {
	first, slow time.Duration
	delay       time.Duration // the last
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
func (s *Store) look(ctx context.Context, w *waiter, r *driver.Request) (l look, err error) {
	f, err := s.begin(ctx, r.Name)
	if err != nil {
		return l, err
	}
	defer s.leave(f)
	w.looks++
	for {
		if l.told, err = s.subscribe(f); err != nil {
			return l, err
		}
		if w.aside {
			err = s.peek(f, w, r)
		} else {
			l.grant, err = s.reserve(ctx, f, r)
		}
		no, refused := err.(*refusal)
		if !refused {
			l.done = true
			return l, err
		}
		if l.told && !s.notify.watches(f) {
			continue // another file stands there by now
		}
		l.refusal = no
		return l, nil
	}
}

// reserve makes one try, and holds what it got for as long as a reservation.
func (s *Store) reserve(ctx context.Context, f *file, r *driver.Request) (driver.Grant, error) {
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

// peek finds out whether a try would succeed, without one if it can.
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

// peekRecord looks for a cool-down or somebody's promotion. Who is being
// promoted himself is told of the latter by his try.
func (s *Store) peekRecord(f *file, r *driver.Request, promote bool) *refusal {
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	n, _ := f.spare.pread(b.in[:], 0)
	b.rec.decode(b.in[:n])
	if promote {
		return nil
	}
	return admit(&b.rec, r.Shared, s.config.wall())
}

// probe finds out by a try, and gives back what it got.
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

// subscribe asks to be woken and leaves word in the file. told is false where
// that is not possible.
func (s *Store) subscribe(f *file) (told bool, err error) {
	if f.spare != nil {
		if same, err := f.spare.current(); err != nil || !same {
			f.drop()
		}
	}
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
