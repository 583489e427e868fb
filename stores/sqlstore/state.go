package sqlstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// at makes the time of a decision.
func at(now decide.Time) decide.Now { return decide.Now{At: now, Wall: int64(now)} }

// trim removes the places, reservations, refused tokens and intents that have lapsed. It keeps
// lapsed holds. If the server's clock was set back, trim shortens what would last too long, so that
// a waiter that died does not block the name.
func (s *state) trim(now decide.Time) {
	for i := range s.queue {
		s.queue[i].Until = min(s.queue[i].Until, now.Add(placeFor))
	}
	s.free = min(s.free, now)
	ended := s.lastEnd(now)
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Until <= now })
	s.Trim(at(now))
	s.noteFree(ended, now)
}

// noteFree updates s.free, the time since which the first waiter in the queue could take the name.
// s.free is 0 if that waiter cannot take the name yet. noteFree is called whenever a state is
// trimmed or the name is handed over. At other times s.free may be out of date: when a lease ends,
// and after the statements of fast.go, s.free stays as it was.
func (s *state) noteFree(since, now decide.Time) {
	if len(s.queue) == 0 || s.isExcluded(&s.queue[0], now) {
		s.free = 0
		return
	}
	s.free = cmp.Or(s.free, since)
}

// lastEnd returns when the last hold, reservation, cool-down or intent ended, or 0 if none has
// ended.
func (s *state) lastEnd(now decide.Time) decide.Time {
	var last decide.Time
	later := func(t decide.Time) {
		if t <= now {
			last = max(last, t)
		}
	}
	for _, h := range s.Holds {
		later(h.Until)
	}
	later(s.Cool)
	later(s.Intent.Until)
	return last
}

// isExcluded reports whether something other than the queue keeps the name from the waiter at a
// place.
func (s *state) isExcluded(p *place, now decide.Time) bool {
	return s.Excludes(string(p.Token), p.Shared, at(now))
}

// firstToLook returns the token of the first waiter in the queue if that waiter has to look, and ""
// otherwise. The waiter has to look if it may take the name. A waiter that polls always has to
// look, because it may not know that it is the first.
func (s *state) firstToLook() opaque {
	if len(s.queue) == 0 || s.queue[0].Push && s.free == 0 {
		return ""
	}
	return s.queue[0].Token
}

// aheadOf returns the number of waiters before a token in the queue, or the number of all waiters
// if the token has no place.
func (s *state) aheadOf(token opaque) int {
	for i := range s.queue {
		if s.queue[i].Token == token {
			return i
		}
	}
	return len(s.queue)
}

// isTurn reports whether the waiter at a position in the queue may take the name. Position 0 is the
// first. The first waiter may take the name, and so may a reader that has only readers before it.
// If the first waiter does not take the free name, its process may be dead or stopped. The second
// waiter may therefore take the name after driver.MaxReservation, the third after twice that time,
// and so on.
func (s *state) isTurn(position int, now decide.Time) bool {
	return s.readsNow(position) || s.mayOvertake(position, now)
}

// readsNow reports whether a waiter is the first in the queue, or a reader that has only readers
// before it. Readers at the head of the queue hold the lock together, so none of them waits for
// another.
func (s *state) readsNow(position int) bool {
	writes := func(p place) bool { return !p.Shared }
	return position == 0 || position < len(s.queue) && !slices.ContainsFunc(s.queue[:position+1], writes)
}

// mayOvertake reports whether the waiter at a position may take the name before the waiters ahead
// of it. It may do so if the name has been free for so long that these waiters are probably dead.
func (s *state) mayOvertake(position int, now decide.Time) bool {
	return s.free > 0 && s.free.Add(time.Duration(position)*driver.MaxReservation) <= now
}

// acquire tries once to grant r. The caller must have trimmed the state.
func (s *state) acquire(r *driver.Request, now decide.Time) (*decide.Hold, error) {
	ahead := s.aheadOf(opaque(r.Token.Text()))
	newcomer := r.Replaces.Text() == "" && s.Live(r.Token.Text(), at(now)) == nil
	h, err := s.AcquireInTurn(r, s.isTurn(ahead, now), at(now))
	if err != nil {
		return nil, s.countWaiters(err)
	}
	if newcomer {
		if !s.readsNow(ahead) {
			s.queue = s.queue[ahead:] // the waiters that missed their turn lose their places
		}
		s.leaveQueue(opaque(r.Token.Text()))
	}
	return h, nil
}

// leaveQueue removes the place of a token that has got the name.
func (s *state) leaveQueue(token opaque) {
	s.free = 0
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Token == token })
}

// countWaiters adds the number of waiters to the error of a request that was refused.
func (s *state) countWaiters(err error) error {
	if held, ok := err.(*driver.HeldError); ok {
		held.Waiters = len(s.queue)
	}
	return err
}

// release removes everything that a token has: its hold or reservation, and its place in the queue.
// The result says what the token had.
func (s *state) release(token string, keep time.Duration, now decide.Time) driver.Outcome {
	waiters := len(s.queue)
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Token == opaque(token) })
	out := s.Release(token, keep, at(now))
	if out == driver.OutcomeGone && len(s.queue) < waiters {
		return driver.OutcomeReleased
	}
	return out
}

// convert changes a live hold from shared to exclusive or back. If mustSave is true, the caller has
// to save the state, even if there is an error: a reader that has to wait keeps new ones out.
func (s *state) convert(r *driver.Request, now decide.Time) (h *decide.Hold, mustSave bool, err error) {
	h, mustSave, err = s.Convert(r, at(now))
	return h, mustSave, s.countWaiters(err)
}

// handOver reserves the free name for the waiters whose turn it is. It stops at the first waiter
// that polls, and sets s.free, so that this waiter may take the name itself.
func (s *state) handOver(now decide.Time) (reserved []reservation) {
	for len(s.queue) > 0 && !s.isExcluded(&s.queue[0], now) {
		p := s.queue[0]
		if !p.Push {
			break
		}
		r := driver.Request{Token: driver.TokenOf(string(p.Token)), Shared: p.Shared, FenceAbove: p.Above, Holder: p.Holder}
		h, err := s.Reserve(&r, at(now))
		if err != nil {
			break // the fences are used up: the waiter gets this error when it tries to take the name itself
		}
		s.leaveQueue(p.Token)
		reserved = append(reserved, reservation{to: p.address(), fence: h.Fence})
	}
	s.noteFree(now, now)
	if n := len(reserved); n > 0 && len(s.queue) > 0 {
		reserved[n-1].next = s.queue[0].address()
	}
	return reserved
}

// leaveFree is called instead of handOver while a transaction keeps the name. No waiter can get the
// name before the transaction ends. Until then the first waiter has to look at the name from time
// to time. If the first waiter sleeps until a notification arrives, leaveFree returns a message for
// the waiter. The caller sends the message.
func (s *state) leaveFree(now decide.Time) (toLook []reservation) {
	if s.noteFree(now, now); s.free > 0 && s.queue[0].Push {
		toLook = append(toLook, reservation{to: s.queue[0].address()})
	}
	return toLook
}

// wakeForCoolDown is called when a change may have begun a cool-down of the name. If the end of the
// cool-down has changed from oldCool, wakeForCoolDown returns a message that makes the first waiter
// look. Without this message, the first waiter may sleep until the end of the lease, long after the
// end of the cool-down. Another waiter that knows the end of the cool-down would then overtake the
// first waiter.
func (s *state) wakeForCoolDown(oldCool, now decide.Time) (toLook []reservation) {
	if s.Cool <= max(now, oldCool) || len(s.queue) == 0 {
		return nil
	}
	one := reservation{to: s.queue[0].address()}
	if len(s.queue) > 1 {
		one.next = s.queue[1].address()
	}
	return []reservation{one}
}

// join gives r a place in the queue, or renews the place that it has.
func (s *state) join(r *driver.Request, push string, now decide.Time) {
	p := newPlace(r, push, now.Add(placeFor))
	if i := s.aheadOf(opaque(r.Token.Text())); i < len(s.queue) {
		s.queue[i] = p
		return
	}
	s.queue = append(s.queue, p)
}

// busyUntil returns the value of the column "busy". The statements of fast.go do not read the
// column "more", which has the queue, the shared holds and other parts of the state. Instead they
// grant the name only when the time in "busy" has passed. So "busy" must not be before the end of
// any of those parts.
func (s *state) busyUntil() decide.Time {
	end := max(s.Cool, s.Intent.Until)
	for _, h := range s.Holds {
		if h.Shared {
			end = max(end, h.Until)
		}
	}
	for _, p := range s.queue {
		end = max(end, p.Until)
	}
	for _, p := range s.Spent {
		end = max(end, p.Until)
	}
	return end
}

// report returns the state in the form that Inspect and List return.
func (s *state) report(name string, now decide.Time) driver.State {
	s.trim(now)
	out := s.Report(name, at(now), time.Now())
	out.Waiters = len(s.queue)
	return out
}

// idle reports whether the name has no waiter, no cool-down, and no live hold or reservation.
func (s *state) idle(now decide.Time) bool { return len(s.queue) == 0 && s.Idle(at(now)) }

// exclusive splits the list of holds into the exclusive hold, which has columns of its own in the
// table, and all other holds.
func (s *state) exclusive() (*decide.Hold, []decide.Hold) {
	i := slices.IndexFunc(s.Holds, func(h decide.Hold) bool { return !h.Shared })
	if i < 0 {
		return nil, s.Holds
	}
	h := s.Holds[i]
	return &h, slices.Delete(slices.Clone(s.Holds), i, i+1)
}
