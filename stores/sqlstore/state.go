package sqlstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func (s *state) find(token opaque) *hold {
	for i := range s.holds {
		if s.holds[i].Token == token {
			return &s.holds[i]
		}
	}
	return nil
}

// live returns the hold of a token if the hold has not lapsed. A reservation counts as a hold.
func (s *state) live(token opaque, now micros) *hold {
	if h := s.find(token); h != nil && h.Until > now {
		return h
	}
	return nil
}

// heldBy returns the live hold of token, or the reason why there is none.
func (s *state) heldBy(token opaque, now micros) (*hold, error) {
	h := s.find(token)
	switch {
	case h == nil, h.Reserved && h.Until <= now:
		return nil, driver.ErrLost
	case h.Until <= now && s.overtaken(h):
		return nil, driver.ErrLost
	case h.Until <= now:
		return nil, driver.ErrExpired
	}
	return h, nil
}

// trim removes the places, reservations, refused tokens and intents that have lapsed. It keeps
// lapsed holds.
func (s *state) trim(now micros) {
	s.clamp(now)
	ended := s.lastEnd(now)
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Until <= now })
	s.spent = slices.DeleteFunc(s.spent, func(p spent) bool { return p.Until <= now })
	s.dropReservations(now)
	if s.intent.Until <= now || s.live(s.intent.Token, now) == nil {
		s.intent = intent{}
	}
	s.noteFree(ended, now)
}

// noteFree updates s.free, the time since which the first waiter in the queue could take the name.
// s.free is 0 if that waiter cannot take the name yet. noteFree is called whenever a state is
// trimmed or the name is handed over. At other times s.free may be out of date: when a lease ends,
// and after the statements of fast.go, s.free stays as it was.
func (s *state) noteFree(since, now micros) {
	if len(s.queue) == 0 || s.isExcluded(s.queue[0].Token, s.queue[0].Shared, now) {
		s.free = 0
		return
	}
	s.free = cmp.Or(s.free, since)
}

// lastEnd returns when the last hold, reservation, cool-down or intent ended, or 0 if none has
// ended.
func (s *state) lastEnd(now micros) micros {
	var last micros
	later := func(t micros) {
		if t <= now {
			last = max(last, t)
		}
	}
	for _, h := range s.holds {
		later(h.Until)
	}
	later(s.cool)
	later(s.intent.Until)
	return last
}

// clamp is for the case that the server's clock was set back. Every place, reservation, refused
// token and intent would then last too long, and a waiter that died would block the name. So clamp
// shortens them to their usual length.
func (s *state) clamp(now micros) {
	for i := range s.queue {
		s.queue[i].Until = min(s.queue[i].Until, now.add(placeFor))
	}
	for i := range s.spent {
		s.spent[i].Until = min(s.spent[i].Until, now.add(spentFor))
	}
	for i := range s.holds {
		if h := &s.holds[i]; h.Reserved {
			h.Until = min(h.Until, now.add(driver.MaxReservation))
		}
	}
	s.intent.Until = min(s.intent.Until, now.add(driver.MaxIntent))
	s.free = min(s.free, now)
}

// isExcluded reports whether something other than the queue keeps token from getting the name now.
func (s *state) isExcluded(token opaque, shared bool, now micros) bool {
	if s.cool > now || shared && s.intent.Token != "" {
		return true
	}
	return slices.ContainsFunc(s.holds, func(h hold) bool {
		return h.Until > now && h.Token != token && !(h.Shared && shared)
	})
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
func (s *state) isTurn(position int, now micros) bool {
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
func (s *state) mayOvertake(position int, now micros) bool {
	return s.free > 0 && s.free.add(time.Duration(position)*driver.MaxReservation) <= now
}

// mint makes the next fence: microseconds since 1970, or one more than the last.
func (s *state) mint(above uint64, now micros) error {
	fence := max(s.fence+1, above+1, uint64(max(now, 0)))
	if fence >= driver.MaxFence {
		return driver.ErrFencesUsedUp
	}
	s.fence = fence
	return nil
}

// add gives the name to a token. A reader that joins other readers gets their fence, and every
// other grant gets a new fence. add also removes lapsed holds; they count as lost after that.
func (s *state) add(token opaque, shared bool, above uint64, now micros) (*hold, error) {
	reads := func(h hold) bool { return h.Shared && h.Until > now }
	if !shared || above >= s.fence || !slices.ContainsFunc(s.holds, reads) {
		if err := s.mint(above, now); err != nil {
			return nil, err
		}
	}
	s.dropHolds(func(h hold) bool { return h.Until > now })
	s.free = 0
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Token == token })
	s.holds = append(s.holds, hold{Token: token, Shared: shared, Fence: s.fence, Since: now})
	return &s.holds[len(s.holds)-1], nil
}

// dropHolds removes every hold for which keepHold returns false. It adds the tokens of these holds
// to s.lost.
func (s *state) dropHolds(keepHold func(hold) bool) {
	s.holds = slices.DeleteFunc(s.holds, func(h hold) bool {
		if keepHold(h) {
			return false
		}
		if len(s.lost) == maxLost {
			s.lost = slices.Delete(s.lost, 0, 1)
		}
		s.lost = append(s.lost, h.Token)
		return true
	})
}

// evictAll ends all holds and the cool-down, and mints a new fence. It does so only if the fence of
// the name still equals seenFence.
func (s *state) evictAll(seenFence uint64, now micros) (uint64, error) {
	if s.fence != seenFence || seenFence == 0 {
		return 0, driver.ErrLost
	}
	if err := s.mint(0, now); err != nil {
		return 0, err
	}
	s.dropHolds(func(hold) bool { return false })
	s.cool = 0
	return s.fence, nil
}

// extendLease moves the end of h to at least ttl from now.
func (h *hold) extendLease(now micros, ttl time.Duration) { h.Until = max(h.Until, now.add(ttl)) }

// armLeast keeps the name taken for at least d from now.
func (h *hold) armLeast(now micros, d time.Duration) {
	if d > 0 {
		h.Least = max(h.Least, now.add(d))
		h.Until = max(h.Until, h.Least)
	}
}

// acquire tries once to grant r. The caller must have trimmed the state.
func (s *state) acquire(r *driver.Request, now micros) (*hold, error) {
	if h := s.live(opaque(r.Token), now); h != nil {
		return s.repeat(h, r, now), nil
	}
	if slices.ContainsFunc(s.spent, func(p spent) bool { return p.Token == opaque(r.Token) }) {
		return nil, driver.ErrLost
	}
	if r.Replaces != "" {
		return s.replace(r, now)
	}
	ahead := s.aheadOf(opaque(r.Token))
	if s.isExcluded(opaque(r.Token), r.Shared, now) || !s.isTurn(ahead, now) {
		return nil, s.heldError(opaque(r.Token), now)
	}
	if !s.readsNow(ahead) {
		s.queue = s.queue[ahead:] // the waiters that missed their turn lose their places
	}
	h, err := s.add(opaque(r.Token), r.Shared, r.FenceAbove, now)
	if err != nil {
		return nil, err
	}
	h.Holder = r.Holder
	h.extendLease(now, r.TTL)
	h.armLeast(now, r.AtLeast)
	return h, nil
}

// repeat does the work of acquire for a token that already has the name. The token has a hold if
// the reply to an earlier request was lost, or if the caller now wants to set AtLeast. The token
// has a reservation if the caller is a waiter that now claims the name.
func (s *state) repeat(h *hold, r *driver.Request, now micros) *hold {
	if h.Reserved {
		h.Reserved, h.Since, h.Until, h.Holder = false, now, now, r.Holder
	}
	h.extendLease(now, r.TTL)
	h.armLeast(now, r.AtLeast)
	return h
}

func (s *state) replace(r *driver.Request, now micros) (*hold, error) {
	h := s.live(opaque(r.Replaces), now)
	if h == nil || h.Reserved {
		return nil, driver.ErrLost
	}
	if err := s.mint(r.FenceAbove, now); err != nil {
		return nil, err
	}
	if s.intent.Token == h.Token {
		s.intent.Token = opaque(r.Token)
	}
	h.Token, h.Holder, h.Since, h.Fence = opaque(r.Token), r.Holder, now, s.fence
	h.extendLease(now, r.TTL)
	h.armLeast(now, r.AtLeast)
	return h, nil
}

// release removes everything that a token has: its hold or reservation, and its place in the queue.
// The result says what the token had.
func (s *state) release(token opaque, keep time.Duration, now micros) driver.Outcome {
	place := func(p place) bool { return p.Token == token }
	waits := slices.ContainsFunc(s.queue, place)
	s.queue = slices.DeleteFunc(s.queue, place)
	i := slices.IndexFunc(s.holds, func(h hold) bool { return h.Token == token })
	if i < 0 {
		return s.releaseNothing(token, waits, now)
	}
	h := s.holds[i]
	s.holds = slices.Delete(s.holds, i, i+1)
	if s.intent.Token == token {
		s.intent = intent{}
	}
	switch {
	case h.Until <= now && s.overtaken(&h):
		return driver.Taken
	case h.Until <= now:
		return driver.Expired
	}
	if end := max(h.Least, now.add(keep)); !h.Reserved && end > now && end >= s.cool {
		s.cool, s.cooled = end, h.Holder
	}
	return driver.Released
}

// convert changes a live hold from shared to exclusive or back. If there are other readers, a
// promotion has to wait for them. Then convert returns an error, and records in the state that the
// hold wants to be promoted. If mustSave is true, the caller has to save the state, even if there
// is an error.
func (s *state) convert(r *driver.Request, now micros) (h *hold, mustSave bool, err error) {
	h, err = s.heldBy(opaque(r.Token), now)
	if err != nil {
		return nil, false, err
	}
	if h.Shared && !r.Shared {
		if s.intent.Token != "" && s.intent.Token != opaque(r.Token) {
			return nil, false, driver.ErrPromotionConflict
		}
		if s.excludedBut(opaque(r.Token), now) {
			s.intent = intent{opaque(r.Token), now.add(driver.MaxIntent)}
			return nil, true, s.heldError(opaque(r.Token), now)
		}
		if err := s.mint(r.FenceAbove, now); err != nil {
			return nil, false, err
		}
		h.Fence = s.fence
	}
	h.Shared = r.Shared
	h.extendLease(now, r.TTL)
	if s.intent.Token == opaque(r.Token) {
		s.intent = intent{}
	}
	return h, true, nil
}

// excludedBut reports whether a token other than the given one has a live hold or reservation.
func (s *state) excludedBut(token opaque, now micros) bool {
	return slices.ContainsFunc(s.holds, func(h hold) bool { return h.Until > now && h.Token != token })
}

// handOver reserves the free name for the waiters whose turn it is. It stops at the first waiter
// that polls, and sets s.free, so that this waiter may take the name itself.
func (s *state) handOver(now micros) (handed []reservation) {
	for len(s.queue) > 0 && !s.isExcluded(s.queue[0].Token, s.queue[0].Shared, now) {
		p := s.queue[0]
		if !p.Push {
			break
		}
		h, err := s.add(p.Token, p.Shared, p.Above, now)
		if err != nil {
			break // the fences are used up: the waiter gets this error when it tries to take the name itself
		}
		h.Reserved, h.Holder = true, p.Holder
		h.extendLease(now, driver.MaxReservation)
		handed = append(handed, reservation{to: p.address(), fence: h.Fence, since: now})
	}
	s.noteFree(now, now)
	if n := len(handed); n > 0 && len(s.queue) > 0 {
		handed[n-1].next = s.queue[0].address()
	}
	return handed
}

// leaveFree is called instead of handOver while a transaction keeps the name. No waiter can get the
// name before the transaction ends. Until then the first waiter has to look at the name from time
// to time. If the first waiter sleeps until a notification arrives, leaveFree returns a message for
// the waiter. The caller sends the message.
func (s *state) leaveFree(now micros) (toLook []reservation) {
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
func (s *state) wakeForCoolDown(oldCool, now micros) (toLook []reservation) {
	if s.cool <= max(now, oldCool) || len(s.queue) == 0 {
		return nil
	}
	one := reservation{to: s.queue[0].address()}
	if len(s.queue) > 1 {
		one.next = s.queue[1].address()
	}
	return []reservation{one}
}

// join gives r a place in the queue, or renews the place that it has.
func (s *state) join(r *driver.Request, push string, now micros) {
	p := newPlace(r, push, now.add(placeFor))
	if i := s.aheadOf(opaque(r.Token)); i < len(s.queue) {
		s.queue[i] = p
		return
	}
	s.queue = append(s.queue, p)
}

// busyUntil returns the value of the column "busy". The statements of fast.go do not read the
// column "more", which has the queue, the shared holds and other parts of the state. Instead they
// grant the name only when the time in "busy" has passed. So "busy" must not be before the end of
// any of those parts.
func (s *state) busyUntil() micros {
	end := max(s.cool, s.intent.Until)
	for _, h := range s.holds {
		if h.Shared {
			end = max(end, h.Until)
		}
	}
	for _, p := range s.queue {
		end = max(end, p.Until)
	}
	for _, p := range s.spent {
		end = max(end, p.Until)
	}
	return end
}

// nextEnd returns when the next hold, reservation, cool-down or intent ends, or 0 if none will.
func (s *state) nextEnd(now micros) micros {
	var next micros
	sooner := func(t micros) {
		if t > now && (next == 0 || t < next) {
			next = t
		}
	}
	for _, h := range s.holds {
		sooner(h.Until)
	}
	sooner(s.cool)
	sooner(s.intent.Until)
	return next
}

func (s *state) heldError(token opaque, now micros) error {
	err := &driver.HeldError{Holds: s.holdsExcept(token, now), Waiters: len(s.queue)}
	for _, h := range err.Holds {
		if h.Until.After(err.Until) {
			err.Until = h.Until
		}
	}
	return err
}

// holdsExcept returns the live holds and the cool-down, except the hold of the given token. All
// times in the result follow the clock of this process, not that of the server.
func (s *state) holdsExcept(token opaque, now micros) []driver.Hold {
	wall := time.Now()
	at := func(t micros) time.Time { return wall.Add(t.timeUntil(now)) }
	var out []driver.Hold
	for _, h := range s.holds {
		if h.Until <= now || h.Token == token {
			continue
		}
		r := driver.Hold{Holder: h.Holder, Shared: h.Shared, Since: at(h.Since), Until: at(h.Until)}
		if h.Holder.Plan > 0 {
			r.PlannedEnd = at(h.Since.add(h.Holder.Plan))
		}
		out = append(out, r)
	}
	if s.cool > now {
		out = append(out, driver.Hold{Cooling: true, Holder: s.cooled, Until: at(s.cool), PlannedEnd: at(s.cool)})
	}
	return out
}

// report returns the state in the form that Inspect and List return.
func (s *state) report(name string, now micros) driver.State {
	s.trim(now)
	return driver.State{Name: name, Holds: s.holdsExcept("", now), Fence: s.fence, Waiters: len(s.queue)}
}

// idle reports whether the name has no waiter, no cool-down, and no live hold or reservation.
func (s *state) idle(now micros) bool {
	return len(s.queue) == 0 && s.cool <= now && !s.excludedBut("", now)
}

// exclusive splits the list of holds into the exclusive hold, which has columns of its own in the
// table, and all other holds.
func (s *state) exclusive() (*hold, []hold) {
	i := slices.IndexFunc(s.holds, func(h hold) bool { return !h.Shared })
	if i < 0 {
		return nil, s.holds
	}
	h := s.holds[i]
	return &h, slices.Delete(slices.Clone(s.holds), i, i+1)
}
