package sqlstore

import (
	"cmp"
	"slices"
	"strconv"
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

// live returns the hold of token that has not lapsed. A reservation is one too.
func (s *state) live(token opaque, now micros) *hold {
	if h := s.find(token); h != nil && h.Until > now {
		return h
	}
	return nil
}

// overtaken reports whether somebody else got the name since h was granted. The statement that
// takes a free name leaves lapsed readers where they are, so the fence has to tell.
func (s *state) overtaken(h *hold) bool { return h.Fence < s.fence }

// held returns the live hold of token, or the reason why there is none.
func (s *state) held(token opaque, now micros) (*hold, error) {
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

// trim removes what time has ended: places, reservations and refused tokens. Lapsed holds stay.
func (s *state) trim(now micros) {
	s.clamp(now)
	ended := s.lastEnd(now)
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Until <= now })
	s.spent = slices.DeleteFunc(s.spent, func(p spent) bool { return p.Until <= now })
	s.holds = slices.DeleteFunc(s.holds, func(h hold) bool { return h.Reserved && h.Until <= now })
	if s.intent.Until <= now || s.live(s.intent.Token, now) == nil {
		s.intent = intent{}
	}
	s.noteFree(ended, now)
}

// noteFree keeps free up to date: since when the name lies free for the first in the queue. The
// statements of fast.go do not change it, and neither does the end of a lease.
func (s *state) noteFree(since, now micros) {
	if len(s.queue) == 0 || s.excluded(s.queue[0].Token, s.queue[0].Shared, now) {
		s.free = 0
		return
	}
	s.free = cmp.Or(s.free, since)
}

// lastEnd is when the last hold, reservation, cool-down or intent ended by time; 0 if none did.
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

// clamp ends what must not last long at its usual time if the server's clock was set back. Without
// it, a waiter that died would keep the name from others for as long as the clock went back.
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

// excluded reports whether the name cannot be given to token now, even if nobody waits for it.
func (s *state) excluded(token opaque, shared bool, now micros) bool {
	if s.cool > now || shared && s.intent.Token != "" {
		return true
	}
	return slices.ContainsFunc(s.holds, func(h hold) bool {
		return h.Until > now && h.Token != token && !(h.Shared && shared)
	})
}

// looks returns the token of the first in the queue if it has to look: it may take the name, or it
// polls and has to know that it is the first now.
func (s *state) looks() opaque {
	if len(s.queue) == 0 || s.queue[0].Push && s.free == 0 {
		return ""
	}
	return s.queue[0].Token
}

// ahead returns the number of waiters before token in the queue; all of them if it has no place.
func (s *state) ahead(token opaque) int {
	for i := range s.queue {
		if s.queue[i].Token == token {
			return i
		}
	}
	return len(s.queue)
}

// turn reports whether the waiter with that many others ahead may take the name. The first may, and
// so may a reader in the queue that has only readers before it. If the first does not come for a
// name that lies free, because its process is dead or stopped, each of the others may after another
// driver.MaxReservation.
func (s *state) turn(ahead int, now micros) bool {
	return s.reads(ahead) || s.late(ahead, now)
}

// reads reports whether the waiter in that place is the first, or a reader among the readers at the
// head of the queue. They hold together, so none of them has to wait for the one before it.
func (s *state) reads(ahead int) bool {
	writes := func(p place) bool { return !p.Shared }
	return ahead == 0 || ahead < len(s.queue) && !slices.ContainsFunc(s.queue[:ahead+1], writes)
}

// late reports whether those ahead have not come for the name in time.
func (s *state) late(ahead int, now micros) bool {
	return s.free > 0 && s.free.add(time.Duration(ahead)*driver.MaxReservation) <= now
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

// add gives the name to token. A reader that joins others gets their fence; every other
// grant has a new one. Holds that had lapsed are lost from now on.
func (s *state) add(token opaque, shared bool, above uint64, now micros) (*hold, error) {
	reads := func(h hold) bool { return h.Shared && h.Until > now }
	if !shared || above >= s.fence || !slices.ContainsFunc(s.holds, reads) {
		if err := s.mint(above, now); err != nil {
			return nil, err
		}
	}
	s.drop(func(h hold) bool { return h.Until > now })
	s.free = 0
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.Token == token })
	s.holds = append(s.holds, hold{Token: token, Shared: shared, Fence: s.fence, Since: now})
	return &s.holds[len(s.holds)-1], nil
}

// drop loses all holds but those that keep allows.
func (s *state) drop(keep func(hold) bool) {
	s.holds = slices.DeleteFunc(s.holds, func(h hold) bool {
		if keep(h) {
			return false
		}
		if len(s.lost) == maxLost {
			s.lost = slices.Delete(s.lost, 0, 1)
		}
		s.lost = append(s.lost, h.Token)
		return true
	})
}

// evict ends all holds and the cool-down if the fence is still seen, and mints a fence.
func (s *state) evict(seen uint64, now micros) (uint64, error) {
	if s.fence != seen || seen == 0 {
		return 0, driver.ErrLost
	}
	if err := s.mint(0, now); err != nil {
		return 0, err
	}
	s.drop(func(hold) bool { return false })
	s.cool = 0
	return s.fence, nil
}

// extend moves the end of h to at least ttl from now.
func (h *hold) extend(now micros, ttl time.Duration) { h.Until = max(h.Until, now.add(ttl)) }

// arm keeps the name taken for at least d from now.
func (h *hold) arm(now micros, d time.Duration) {
	if d > 0 {
		h.Least = max(h.Least, now.add(d))
		h.Until = max(h.Until, h.Least)
	}
}

// acquire makes one try for r. The state was trimmed.
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
	ahead := s.ahead(opaque(r.Token))
	if s.excluded(opaque(r.Token), r.Shared, now) || !s.turn(ahead, now) {
		return nil, s.heldError(opaque(r.Token), now)
	}
	if !s.reads(ahead) {
		s.queue = s.queue[ahead:] // waiters that did not come lose their places
	}
	h, err := s.add(opaque(r.Token), r.Shared, r.FenceAbove, now)
	if err != nil {
		return nil, err
	}
	h.Holder = r.Holder
	h.extend(now, r.TTL)
	h.arm(now, r.AtLeast)
	return h, nil
}

// repeat serves a request whose token is live: the first reply was lost, it claims a reservation,
// or it arms AtLeast.
func (s *state) repeat(h *hold, r *driver.Request, now micros) *hold {
	if h.Reserved {
		h.Reserved, h.Since, h.Until, h.Holder = false, now, now, r.Holder
	}
	h.extend(now, r.TTL)
	h.arm(now, r.AtLeast)
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
	h.extend(now, r.TTL)
	h.arm(now, r.AtLeast)
	return h, nil
}

// release ends what token has and reports what that was.
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

func (s *state) releaseNothing(token opaque, waits bool, now micros) driver.Outcome {
	if i := slices.Index(s.lost, token); i >= 0 {
		s.lost = slices.Delete(s.lost, i, i+1)
		return driver.Taken
	}
	s.spent = append(s.spent, spent{token, now.add(spentFor)})
	if waits {
		return driver.Released
	}
	return driver.Gone
}

// convert changes the mode of a live hold. write tells whether the state changed although there is
// an error: the intent of a promotion was noted.
func (s *state) convert(r *driver.Request, now micros) (h *hold, write bool, err error) {
	h, err = s.held(opaque(r.Token), now)
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
	h.extend(now, r.TTL)
	if s.intent.Token == opaque(r.Token) {
		s.intent = intent{}
	}
	return h, true, nil
}

// excludedBut reports whether anybody but token holds the name.
func (s *state) excludedBut(token opaque, now micros) bool {
	return slices.ContainsFunc(s.holds, func(h hold) bool { return h.Until > now && h.Token != token })
}

// handOver reserves the free name for the waiters whose turn it is, as far as the database wakes
// them. For a waiter that polls, it notes since when the name lies free.
func (s *state) handOver(now micros) (handed []reservation) {
	for len(s.queue) > 0 && !s.excluded(s.queue[0].Token, s.queue[0].Shared, now) {
		p := s.queue[0]
		if !p.Push {
			break
		}
		h, err := s.add(p.Token, p.Shared, p.Above, now)
		if err != nil {
			break // the fences are used up: the waiter's own try tells it
		}
		h.Reserved, h.Holder = true, p.Holder
		h.extend(now, driver.MaxReservation)
		handed = append(handed, reservation{token: p.Token, fence: h.Fence})
	}
	s.noteFree(now, now)
	if n := len(handed); n > 0 && len(s.queue) > 0 {
		handed[n-1].next = s.queue[0].Token
	}
	return handed
}

// leaveFree is handOver while a transaction keeps the name: nobody can get it. The first waiter has
// to look from now on until that transaction ends.
func (s *state) leaveFree(now micros) (look []reservation) {
	if s.noteFree(now, now); s.free > 0 && s.queue[0].Push {
		look = append(look, reservation{token: s.queue[0].Token})
	}
	return look
}

// A reservation was made for the waiter with that token; without a fence, it only has to look. The
// next in the queue, if there is one, has to look if the reservation is not claimed in time.
type reservation struct {
	token opaque
	fence uint64
	next  opaque
}

// text is how a notification names a reservation. Tokens are secrets, so their hashes stand there.
func (r reservation) text() string {
	text := r.token.hash() + " " + strconv.FormatUint(r.fence, 10)
	if r.next != "" {
		text += " " + r.next.hash()
	}
	return text
}

// join gives r a place in the queue, or renews it.
func (s *state) join(r *driver.Request, push bool, now micros) {
	p := place{opaque(r.Token), r.Shared, r.FenceAbove, push, now.add(placeFor), r.Holder}
	if i := s.ahead(opaque(r.Token)); i < len(s.queue) {
		s.queue[i] = p
		return
	}
	s.queue = append(s.queue, p)
}

// busy is the time until which the statements for a free name and a plain release must not be
// used, because the decision needs more than the columns tell.
func (s *state) busy() micros {
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

// nextEnd is when the next hold, reservation, cool-down or intent ends; 0 if none will.
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
	err := &driver.HeldError{Holds: s.reports(token, now), Waiters: len(s.queue)}
	for _, h := range err.Holds {
		if h.Until.After(err.Until) {
			err.Until = h.Until
		}
	}
	return err
}

// reports lists the live holds but that of token, by this process's clock.
func (s *state) reports(token opaque, now micros) []driver.Hold {
	wall := time.Now()
	at := func(t micros) time.Time { return wall.Add(t.until(now)) }
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

// report is the state as Inspect and List return it.
func (s *state) report(name string, now micros) driver.State {
	s.trim(now)
	return driver.State{Name: name, Holds: s.reports("", now), Fence: s.fence, Waiters: len(s.queue)}
}

// idle reports whether nothing of the name is live.
func (s *state) idle(now micros) bool {
	return len(s.queue) == 0 && s.cool <= now && !s.excludedBut("", now)
}

// exclusive returns the one exclusive hold, which stands in columns of its own, and the others.
func (s *state) exclusive() (*hold, []hold) {
	i := slices.IndexFunc(s.holds, func(h hold) bool { return !h.Shared })
	if i < 0 {
		return nil, s.holds
	}
	h := s.holds[i]
	return &h, slices.Delete(slices.Clone(s.holds), i, i+1)
}

// lockedByTx is the refusal while a transaction keeps the name.
func (s *state) lockedByTx() error {
	return &driver.HeldError{Holds: []driver.Hold{{Holder: driver.Holder{Label: "a transaction that checks or holds the lock"}}}, Waiters: len(s.queue)}
}
