package memstore

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
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
func (s *space) advance(e *entry, now moment) {
	e.Trim(now.Now)
	for len(e.queue) > 0 && !e.Excludes(e.queue[0].r.Token.Text(), e.queue[0].r.Shared, now.Now) {
		w := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		h, err := e.Acquire(&w.r, now.Now)
		if err != nil {
			w.err = err
			s.wake(w, driver.Grant{})
			continue
		}
		s.wake(w, w.of.grant(h, w.r.TTL, now))
	}
	if len(e.watchers) > 0 && len(e.queue) == 0 {
		e.watchers = slices.DeleteFunc(e.watchers, func(w *waiter) bool {
			free := !e.Excludes(w.r.Token.Text(), w.r.Shared, now.Now)
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
func (s *space) setAlarm(e *entry, now moment) {
	if len(e.queue)+len(e.watchers) == 0 {
		return
	}
	next := e.NextEnd(now.Now)
	if next == 0 || e.stop != nil && e.alarm <= next {
		return
	}
	if e.stop != nil {
		e.stop()
	}
	e.alarm = next
	end := s.clockBase.Add(next.Sub(s.wallBase))
	e.stop = s.clock.AfterFunc(end.Sub(now.instant), func() { s.alarmFired(e, next) })
}

// alarmFired runs when an alarm of e fires. setFor is the time for which the alarm was set. In
// the meantime, another alarm may have been set, or e may have been forgotten. Then alarmFired does
// nothing.
func (s *space) alarmFired(e *entry, setFor decide.Time) {
	s.mu.Lock()
	defer s.unlock()
	if s.entries[e.name] == e && e.stop != nil && e.alarm == setFor {
		e.stop = nil
		s.advance(e, s.now())
	}
}

// release ends the hold of token, or its place in the queue. A Wait that had the place returns.
func (s *space) release(e *entry, token string, keep time.Duration, now moment) driver.Outcome {
	out := e.Release(token, keep, now.Now)
	e.Spent = e.Spent[:0] // no request comes later than the next one
	if out != driver.OutcomeGone && out != driver.OutcomeTaken {
		return out // the token had a hold
	}
	w := e.leaveQueues(token)
	if w == nil {
		return out
	}
	s.wake(w, driver.Grant{})
	return driver.OutcomeReleased
}

// endWaits makes all waits of a closed handle return.
func (s *space) endWaits(of *Store) {
	s.mu.Lock()
	defer s.unlock()
	now := s.now()
	for _, e := range s.entries {
		ended := func(w *waiter) bool {
			if w.of == of {
				w.err = driver.ErrClosed
				s.wake(w, driver.Grant{})
			}
			return w.of == of
		}
		before := len(e.queue) + len(e.watchers)
		e.queue, e.watchers = slices.DeleteFunc(e.queue, ended), slices.DeleteFunc(e.watchers, ended)
		if len(e.queue)+len(e.watchers) < before { // no other name has changed
			s.advance(e, now)
		}
	}
}
