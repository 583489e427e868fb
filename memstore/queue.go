package memstore

import (
	"slices"

	"github.com/padlock-go/padlock/driver"
)

// waiter is a place in the queue, or somebody to be told.
type waiter struct {
	of     *Store
	r      driver.Request
	answer func(driver.Grant, error)
	// Guarded by the space.
	out  bool // of queue and bells: answer was, or will be, called
	g    driver.Grant
	err  error
	next *waiter // to be answered too
}

// pump lets in from the head of the queue whoever can come in now; when nobody
// is left there it rings for the others. It sets the alarm for the rest, and
// forgets an entry that nobody needs.
func (s *space) pump(e *entry, now driver.Instant) {
	for len(e.queue) > 0 && !e.excluded(&e.queue[0].r, now) {
		w := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		h, err := s.add(e, &w.r, now)
		if err != nil {
			w.err = err
			s.wake(w, driver.Grant{})
			continue
		}
		h.lease(now, max(w.r.TTL, w.r.AtLeast))
		s.wake(w, h.answer(now))
	}
	if len(e.bells) > 0 && len(e.queue) == 0 {
		e.bells = slices.DeleteFunc(e.bells, func(w *waiter) bool {
			free := !e.excluded(&w.r, now)
			if free {
				s.wake(w, driver.Grant{})
			}
			return free
		})
	}
	s.setAlarm(e, now)
	s.tidy(e, now)
}

// wake answers w when the space is unlocked.
func (s *space) wake(w *waiter, g driver.Grant) {
	w.out, w.g = true, g
	w.next, s.woken = s.woken, w
}

// unlock gives mu up and answers who was let in under it: last of all, since
// they run at once.
func (s *space) unlock() {
	list := s.woken
	s.woken = nil
	s.mu.Unlock()
	for list != nil {
		w := list
		list = w.next
		w.answer(w.g, w.err)
	}
}

// setAlarm makes sure that the queue is looked at when the next thing in its
// way ends by itself. An alarm that is set for earlier stays: it will set the
// next one.
func (s *space) setAlarm(e *entry, now driver.Instant) {
	if len(e.queue)+len(e.bells) == 0 {
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
	defer s.unlock()
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

// sendHome makes all waiters of a handle that is closed return.
func (s *space) sendHome(of *Store) {
	s.mu.Lock()
	defer s.unlock()
	now := s.clock.Now()
	for _, e := range s.entries {
		home := func(w *waiter) bool {
			if w.of == of {
				w.err = driver.ErrClosed
				s.wake(w, driver.Grant{})
			}
			return w.of == of
		}
		e.queue, e.bells = slices.DeleteFunc(e.queue, home), slices.DeleteFunc(e.bells, home)
		s.pump(e, now)
	}
}
