package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// waiter is a place in a queue. It leaves the queue when woken is filled.
type waiter struct {
	r       driver.Request
	reserve bool
	woken   chan driver.Grant // of one; what Wait answers
}

// Wait implements driver.Waiter. It is first come first served; a reader that
// waits to be promoted goes before all others, since it is in their way.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.join(); err != nil {
		return driver.Grant{}, err
	}
	defer s.waits.Done()
	if err := s.enter(ctx); err != nil {
		return driver.Grant{}, err
	}
	w := &waiter{r: r, reserve: reserve, woken: make(chan driver.Grant, 1)}
	e := s.entry(r.Name)
	now := s.clock.Now()
	s.enqueue(e, w, now)
	s.pump(e, now)
	s.space.mu.Unlock()
	select {
	case g := <-w.woken:
		return g, nil
	case <-ctx.Done():
		return driver.Grant{}, s.leave(e, w, ctx.Err())
	case <-s.done:
		return driver.Grant{}, s.leave(e, w, driver.ErrClosed)
	}
}

// join counts a waiter, so that Close can wait for it to leave.
func (s *Store) join() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return driver.ErrClosed
	}
	s.waits.Add(1)
	return nil
}

// leave gives up the place, or what was handed over in the same instant.
func (s *Store) leave(e *entry, w *waiter, why error) error {
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	now := s.clock.Now()
	select {
	case g := <-w.woken:
		// e may serve another name by now; the reservation is found by name.
		if e := s.entries[w.r.Name]; e != nil && g.Fence != 0 {
			e.release(w.r.Token, 0, now)
			s.pump(e, now)
		}
	default:
		e.leaveQueue(w.r.Token)
		s.pump(e, now)
	}
	return why
}

// promotes reports whether w is a reader that wants to be the only one.
func (e *entry) promotes(w *waiter, now driver.Instant) bool {
	h := e.live(w.r.Token, now)
	return h != nil && h.shared && !h.reserved && !w.r.Shared
}

func (s *space) enqueue(e *entry, w *waiter, now driver.Instant) {
	if e.promotes(w, now) {
		e.queue = slices.Insert(e.queue, 0, w)
		return
	}
	e.queue = append(e.queue, w)
}

func (e *entry) leaveQueue(token string) bool {
	i := slices.IndexFunc(e.queue, func(w *waiter) bool { return w.r.Token == token })
	if i < 0 {
		return false
	}
	e.queue = slices.Delete(e.queue, i, i+1)
	return true
}

// pump lets in from the head of the queue whoever can come in now, sets the
// alarm for the rest, and forgets an entry that nobody needs.
func (s *space) pump(e *entry, now driver.Instant) {
	for len(e.queue) > 0 && !e.excluded(&e.queue[0].r, now) {
		w := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		s.wake(e, w, now)
	}
	s.setAlarm(e, now)
	s.tidy(e, now)
}

// wake hands the name to w, or tells it to try if it wants no reservation, has
// a hold already, or the name would be its for less than a claim takes.
func (s *space) wake(e *entry, w *waiter, now driver.Instant) {
	if !w.reserve || e.live(w.r.Token, now) != nil {
		w.woken <- driver.Grant{}
		return
	}
	h := s.add(e, &w.r, now)
	h.reserved, h.atLeast = true, 0
	h.lease(now, driver.MaxReservation)
	w.woken <- h.answer(now)
}

// setAlarm makes sure that the queue is looked at when the next thing in its
// way ends by itself. An alarm that is set for earlier stays: it will set the
// next one.
func (s *space) setAlarm(e *entry, now driver.Instant) {
	if len(e.queue) == 0 {
		return
	}
	next := e.nextEnd(now)
	if next == 0 || e.stop != nil && e.alarm <= next {
		return
	}
	if e.stop != nil {
		e.stop()
	}
	e.alarm = next
	e.stop = s.clock.AfterFunc(next.Sub(now), func() { s.look(e, next) })
}

// look is called by the alarm that was set for at. The entry may have been
// forgotten, and be in use for another name, since.
func (s *space) look(e *entry, at driver.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.name] == e && e.stop != nil && e.alarm == at {
		e.stop = nil
		s.pump(e, s.clock.Now())
	}
}

// nextEnd is when the next hold, cool-down or intent ends; 0 if none will.
func (e *entry) nextEnd(now driver.Instant) (next driver.Instant) {
	for i := range e.holds {
		next = sooner(next, e.holds[i].until, now)
	}
	return sooner(sooner(next, e.cooling, now), e.intent.until, now)
}

func sooner(a, b, now driver.Instant) driver.Instant {
	if b > now && (a == 0 || b < a) {
		return b
	}
	return a
}

// Inspect implements driver.Inspector.
func (s *Store) Inspect(ctx context.Context, name string) (driver.State, error) {
	if err := driver.CheckName(name); err != nil {
		return driver.State{}, err
	}
	if err := s.enter(ctx); err != nil {
		return driver.State{}, err
	}
	defer s.space.mu.Unlock()
	if e := s.entries[name]; e != nil {
		return e.state(s.clock.Now()), nil
	}
	return driver.State{Name: name}, nil
}

// List implements driver.Lister.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.space.mu.Unlock()
	now := s.clock.Now()
	var out []driver.State
	for name, e := range s.entries {
		if strings.HasPrefix(name, prefix) && e.busy(now) {
			out = append(out, e.state(now))
		}
	}
	return out, nil
}

func (e *entry) state(now driver.Instant) driver.State {
	return driver.State{Name: e.name, Holds: e.reports(now, ""), Fence: e.fence, Waiters: len(e.queue)}
}
