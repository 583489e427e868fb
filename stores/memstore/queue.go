package memstore

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// waiter is a caller that waits for a name. A waiter without a place in the queue is a watcher.
type waiter struct {
	of     *Store
	r      driver.Request
	onTurn func(driver.Grant, error)
	// Guarded by the mutex of the space.
	out  bool // the waiter no longer waits
	g    driver.Grant
	err  error
	next *waiter // in the list space.woken
}

// advance grants the name to the waiters at the head of the queue that can have it now. If the
// queue is then empty, advance wakes the watchers whose try would succeed now. If waiters or
// watchers are left, advance sets an alarm for the time when it must run again. If e is no longer
// needed, advance forgets e.
func (s *space) advance(e *entry, now driver.Instant) {
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
		h.extendLease(now, max(w.r.TTL, w.r.AtLeast))
		s.wake(w, w.of.limited(h.toGrant(now)))
	}
	if len(e.watchers) > 0 && len(e.queue) == 0 {
		e.watchers = slices.DeleteFunc(e.watchers, func(w *waiter) bool {
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

// wake ends the wait of w with the grant g. The next unlock calls w.onTurn.
func (s *space) wake(w *waiter, g driver.Grant) {
	w.out, w.g = true, g
	w.next, s.woken = s.woken, w
}

// unlock unlocks mu. After that it calls onTurn of each waiter that was woken while mu was held. An
// onTurn may use the store, so it must not be called while mu is held.
func (s *space) unlock() {
	list := s.woken
	s.woken = nil
	s.mu.Unlock()
	for list != nil {
		w := list
		list = w.next
		w.onTurn(w.g, w.err)
	}
}

// setAlarm makes sure that alarmFired runs when the next hold, cool-down or intent of e ends by
// itself, because a waiter may then get the name. If e has no waiters, no alarm is needed. If an
// alarm for an earlier time is set already, setAlarm does nothing, because alarmFired will set the
// next alarm.
func (s *space) setAlarm(e *entry, now driver.Instant) {
	if len(e.queue)+len(e.watchers) == 0 {
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
	e.stop = s.clock.AfterFunc(next.Sub(now), func() { s.alarmFired(e, next) })
}

// alarmFired runs when an alarm of e fires. setFor is the instant for which the alarm was set. In
// the meantime, another alarm may have been set, or e may have been forgotten and reused for
// another name. Then alarmFired does nothing.
func (s *space) alarmFired(e *entry, setFor driver.Instant) {
	s.mu.Lock()
	defer s.unlock()
	if s.entries[e.name] == e && e.stop != nil && e.alarm == setFor {
		e.stop = nil
		s.advance(e, s.clock.Now())
	}
}

// nextEnd returns when the next hold, cool-down or intent ends, or 0 if there is none.
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

// release ends the hold of token, or its place in the queue. A Wait that had the place returns. If
// the hold was taken with AtLeast, a cool-down keeps the name taken for the rest of that time.
func (s *space) release(e *entry, token string, keep time.Duration, now driver.Instant) driver.Outcome {
	h := e.find(token)
	if h == nil {
		if w := e.leaveQueues(token); w != nil {
			s.wake(w, driver.Grant{})
			return driver.Released
		}
		if i := slices.Index(e.lost, token); i >= 0 {
			e.lost = slices.Delete(e.lost, i, i+1)
			return driver.Taken
		}
		return driver.Gone
	}
	out := driver.Released
	if h.until <= now {
		out = driver.Expired
	} else {
		if end := max(h.atLeast, now.Add(keep)); end > now && end >= e.cooling {
			e.cooling, e.cooled = end, h.holder
		}
	}
	e.withdraw(token)
	last := len(e.holds) - 1
	*h = e.holds[last]
	e.holds[last] = hold{}
	e.holds = e.holds[:last]
	return out
}

// endWaits makes all waits of a closed handle return.
func (s *space) endWaits(of *Store) {
	s.mu.Lock()
	defer s.unlock()
	now := s.clock.Now()
	for _, e := range s.entries {
		ended := func(w *waiter) bool {
			if w.of == of {
				w.err = driver.ErrClosed
				s.wake(w, driver.Grant{})
			}
			return w.of == of
		}
		e.queue, e.watchers = slices.DeleteFunc(e.queue, ended), slices.DeleteFunc(e.watchers, ended)
		s.advance(e, now)
	}
}
