// Package decide has the pure decision about one lock: from the state of a name, a request and the
// time, it makes the next state and the answer. A store reads the state, calls a method, and writes
// the state back if nobody else has changed it meanwhile. So the rules of package driver about
// tokens, fences, leases, modes and cool-downs stand here once. It is for authors of stores that
// keep the whole state of a lock. Programs that use locks do not need it.
//
// A State has no queue of waiters. A store that has one decides about it before and after: it calls
// AcquireInTurn instead of Acquire, and Reserve to hand the name over. No method waits, decides by
// another time than the caller's, or fails for another reason than the rules. A State must not be
// used by two goroutines at once.
//
// The methods look for the token of a request first:
//
//	token has            Acquire            Extend      Convert     Release
//	a live hold          repeats: longer    longer      changes     ends it: Released
//	a lapsed hold,       new try            ErrExpired  ErrExpired  Expired
//	 nobody came since
//	a lapsed hold,       new try            ErrLost     ErrLost     Taken
//	 somebody came since
//	a live reservation   claims it          ErrLost     ErrLost     ends it: Released
//	a lapsed one         new try            ErrLost     ErrLost     Gone
//	been taken away      new try            ErrLost     ErrLost     Taken, once
//	been released        ErrLost for a      ErrLost     ErrLost     Gone
//	 without a hold      minute
//	nothing              new try            ErrLost     ErrLost     Gone
package decide

import (
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A Time is a point in time on the clock of the store, in microseconds. The zero Time is none.
type Time int64

// Add returns t + d.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Microseconds()) }

// Sub returns t - u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

// A Now says what time it is.
type Now struct {
	// At is the time by the clock of the store, rounded down.
	At Time
	// Slack is by how much the time may be later than At, or than the time that another process
	// reads at the same moment. Every end is set later by Slack, so no lease is too short.
	Slack time.Duration
	// Wall is the time since 1970 in microseconds, which fences follow.
	Wall int64
}

// end returns the time after d, rounded up.
func (n Now) end(d time.Duration) Time { return n.At.Add(d + n.Slack + time.Microsecond - 1) }

// A State is everything that a store knows about a name. The zero State is a name that was never
// used. A store keeps it in a form of its own; JSON is one.
type State struct {
	Fence  uint64        `json:"fence"`           // the highest one so far
	Holds  []Hold        `json:"holds,omitempty"` // with lapsed holds, until somebody else gets the name or is promoted
	Cool   Time          `json:"cool,omitempty"`  // nobody gets the name before this time
	Cooled driver.Holder `json:"cooled,omitzero"` // the last holder before the cool-down
	Intent Intent        `json:"intent,omitzero"` // the reader that waits for its promotion
	Taken  []string      `json:"taken,omitempty"` // tokens of holds that were broken, or that lapsed before others came
	Spent  []Spent       `json:"spent,omitempty"` // tokens that must not be granted any more
}

// A Hold is a hold that was granted, or a reservation: the name was handed over to a waiter that
// still has to claim it with Acquire. A Hold is live until Until, and excludes others until then.
type Hold struct {
	Token    string        `json:"token"`
	Shared   bool          `json:"shared,omitempty"`
	Reserved bool          `json:"reserved,omitempty"`
	Fence    uint64        `json:"fence"`
	Since    Time          `json:"since"`
	Until    Time          `json:"until"`
	Foreign  bool          `json:"foreign,omitempty"` // another program took it; Since and Holder are unknown
	Change   string        `json:"change,omitempty"`  // a store's mark of the last grant; a grant removes it
	Holder   driver.Holder `json:"holder,omitzero"`
}

// An Intent keeps new readers out while a reader waits to be the only one.
type Intent struct {
	Token string `json:"token,omitempty"`
	Until Time   `json:"until,omitempty"`
}

// A Spent token was released without having a hold. An Acquire that was sent before the release may
// still be on its way, and must not be granted.
type Spent struct {
	Token string `json:"token"`
	Until Time   `json:"until"`
}

// SpentFor is how long a spent token is refused. A request arrives within this time or never.
const SpentFor = time.Minute

// maxTokens is how many tokens Taken and Spent have. A store may write them with each change, and
// many waits can be given up within SpentFor. A token that was pushed out may be granted to a
// request that arrives after the release: then the name is held by nobody until that lease ends.
const maxTokens = 16

// Trim removes what has ended and says nothing any more, and shortens what would last longer than
// it ever may, in case that the clock of the store was set back. It keeps lapsed holds, but no
// lapsed reservations. The other methods need a trimmed state.
func (s *State) Trim(now Now) {
	for i := range s.Spent {
		s.Spent[i].Until = min(s.Spent[i].Until, now.end(SpentFor))
	}
	s.Spent = slices.DeleteFunc(s.Spent, func(p Spent) bool { return p.Until <= now.At })
	s.Holds = slices.DeleteFunc(s.Holds, func(h Hold) bool { return h.Reserved && h.Until <= now.At })
	for i := range s.Holds {
		if h := &s.Holds[i]; h.Reserved {
			h.Until = min(h.Until, now.end(driver.MaxReservation))
		}
	}
	s.Intent.Until = min(s.Intent.Until, now.end(driver.MaxIntent))
	if s.Intent.Until <= now.At || s.Live(s.Intent.Token, now) == nil {
		s.Intent = Intent{}
	}
}

func (s *State) find(token string) *Hold {
	for i := range s.Holds {
		if s.Holds[i].Token == token {
			return &s.Holds[i]
		}
	}
	return nil
}

// Live returns the live hold or reservation of a token, or nil.
func (s *State) Live(token string, now Now) *Hold {
	if h := s.find(token); h != nil && h.Until > now.At {
		return h
	}
	return nil
}

// overtaken reports whether somebody came after h. A reader that joined others has their fence, so
// only a greater one tells. The list of holds cannot tell: a store may grant a free name without
// reading the lapsed shared holds. It says yes, too, of a reader during whose hold the fence rose
// because of another reader (FenceAbove, Replaces or RaiseFence), even if nobody came.
func (s *State) overtaken(h *Hold) bool { return h.Fence < s.Fence }

// heldBy returns the live hold of a token, or the reason why there is none.
func (s *State) heldBy(token string, now Now) (*Hold, error) {
	switch h := s.find(token); {
	case h == nil, h.Reserved, h.Until <= now.At && s.overtaken(h):
		return nil, driver.ErrLost
	case h.Until <= now.At:
		return nil, driver.ErrExpired
	default:
		return h, nil
	}
}

// othersHold reports whether a token other than the given one has a live hold. If shared is true,
// shared holds do not count.
func (s *State) othersHold(token string, shared bool, now Now) bool {
	return slices.ContainsFunc(s.Holds, func(h Hold) bool {
		return h.Until > now.At && h.Token != token && !(h.Shared && shared)
	})
}

// Excludes reports whether a request of token could not be granted now.
func (s *State) Excludes(token string, shared bool, now Now) bool {
	return s.Cool > now.At || shared && s.Intent.Token != "" && s.Intent.Token != token || s.othersHold(token, shared, now)
}

// mint makes the next fence: microseconds since 1970, or one more than the last.
func (s *State) mint(above uint64, now Now) error {
	fence := max(s.Fence+1, above+1, uint64(max(now.Wall, 0)))
	if fence >= driver.MaxFence {
		return driver.ErrFencesUsedUp
	}
	s.Fence = fence
	return nil
}

// drop removes the holds for which gone is true, and remembers that they were taken away.
func (s *State) drop(gone func(Hold) bool) {
	s.Holds = slices.DeleteFunc(s.Holds, func(h Hold) bool {
		if gone(h) {
			s.Taken = append(s.Taken, h.Token)
			return true
		}
		return false
	})
	s.Taken = s.Taken[max(0, len(s.Taken)-maxTokens):]
}

// extend moves the end of h to at least ttl from now.
func (h *Hold) extend(ttl time.Duration, now Now) {
	h.Change = ""
	h.Until = max(h.Until, now.end(ttl))
}

// DropLapsed removes the lapsed holds, and remembers that they were taken away. It is for a caller
// that takes the name without a hold in the state.
func (s *State) DropLapsed(now Now) { s.drop(func(h Hold) bool { return h.Until <= now.At }) }

// Acquire tries once to grant r. If the request is refused, the state has not changed.
func (s *State) Acquire(r *driver.Request, now Now) (*Hold, error) {
	return s.AcquireInTurn(r, true, now)
}

// AcquireInTurn is like Acquire, for a store with a queue. If turn is false, other waiters come
// before r, and r is refused even if the name is free. A token that has the name already, and one
// that replaces another, need no turn.
func (s *State) AcquireInTurn(r *driver.Request, turn bool, now Now) (*Hold, error) {
	if h := s.Live(r.Token.Text(), now); h != nil {
		if h.Reserved {
			h.Reserved, h.Since, h.Until, h.Holder = false, now.At, now.At, r.Holder
		}
		h.extend(r.TTL, now)
		return h, nil
	}
	if slices.ContainsFunc(s.Spent, func(p Spent) bool { return p.Token == r.Token.Text() }) {
		return nil, driver.ErrLost
	}
	if r.Replaces.Text() != "" {
		return s.replace(r, now)
	}
	if !turn || s.Excludes(r.Token.Text(), r.Shared, now) {
		return nil, s.HeldError(r.Token.Text(), now)
	}
	h, err := s.add(r, now)
	if err == nil {
		h.extend(r.TTL, now)
	}
	return h, err
}

// Reserve hands the name over to the waiter of r, for at most driver.MaxReservation. The name must
// not be excluded for r.
func (s *State) Reserve(r *driver.Request, now Now) (*Hold, error) {
	h, err := s.add(r, now)
	if err == nil {
		h.Reserved, h.Until = true, now.end(driver.MaxReservation)
	}
	return h, err
}

// add adds a hold without an end. A reader that joins other readers gets their fence, and every
// other hold gets a new one.
func (s *State) add(r *driver.Request, now Now) (*Hold, error) {
	joins := r.Shared && r.FenceAbove < s.Fence && s.othersHold(r.Token.Text(), false, now)
	if !joins {
		if err := s.mint(r.FenceAbove, now); err != nil {
			return nil, err
		}
	}
	s.forget(r.Token.Text())
	s.DropLapsed(now)
	s.Holds = append(s.Holds, Hold{Token: r.Token.Text(), Shared: r.Shared, Fence: s.Fence, Since: now.At, Holder: r.Holder})
	return &s.Holds[len(s.Holds)-1], nil
}

// forget removes the lapsed hold of a token that gets the name again, and that an earlier hold of it
// was taken away: after the next Release, the token has nothing.
func (s *State) forget(token string) {
	s.Holds = slices.DeleteFunc(s.Holds, func(h Hold) bool { return h.Token == token })
	s.Taken = slices.DeleteFunc(s.Taken, func(taken string) bool { return taken == token })
}

// replace gives the hold of r.Replaces to r.Token.
func (s *State) replace(r *driver.Request, now Now) (*Hold, error) {
	h := s.Live(r.Replaces.Text(), now)
	if h == nil || h.Reserved {
		return nil, driver.ErrLost
	}
	if err := s.mint(r.FenceAbove, now); err != nil {
		return nil, err
	}
	if s.Intent.Token == r.Replaces.Text() {
		s.Intent.Token = r.Token.Text()
	}
	s.forget(r.Token.Text())
	h = s.find(r.Replaces.Text())
	h.Token, h.Holder, h.Since, h.Fence = r.Token.Text(), r.Holder, now.At, s.Fence
	h.extend(r.TTL, now)
	return h, nil
}

// Extend makes the lease of a live hold last at least ttl from now. If ttl is 0, it only looks.
func (s *State) Extend(token string, ttl time.Duration, now Now) (*Hold, error) {
	h, err := s.heldBy(token, now)
	if err == nil && ttl > 0 {
		h.extend(ttl, now)
	}
	return h, err
}

// Release ends what token has. keep is the cool-down that follows. The state changes in any case: a
// token that has nothing is spent from now on.
func (s *State) Release(token string, keep time.Duration, now Now) driver.Outcome {
	i := slices.IndexFunc(s.Holds, func(h Hold) bool { return h.Token == token })
	if i < 0 {
		return s.releaseNothing(token, now)
	}
	h := s.Holds[i]
	s.Holds = slices.Delete(s.Holds, i, i+1)
	if s.Intent.Token == token {
		s.Intent = Intent{}
	}
	switch {
	case h.Until <= now.At && s.overtaken(&h):
		return driver.OutcomeTaken
	case h.Until <= now.At:
		return driver.OutcomeExpired
	}
	if end := now.end(keep); keep > 0 && !h.Reserved && end >= s.Cool {
		s.Cool, s.Cooled = end, h.Holder
	}
	return driver.OutcomeReleased
}

func (s *State) releaseNothing(token string, now Now) driver.Outcome {
	if i := slices.Index(s.Taken, token); i >= 0 {
		s.Taken = slices.Delete(s.Taken, i, i+1)
		return driver.OutcomeTaken
	}
	s.Spent = slices.DeleteFunc(s.Spent, func(p Spent) bool { return p.Token == token })
	s.Spent = append(s.Spent, Spent{token, now.end(SpentFor)})
	s.Spent = s.Spent[max(0, len(s.Spent)-maxTokens):]
	return driver.OutcomeGone
}

// Convert changes the mode of a live hold to that of r. If changed is true, the state has changed,
// even if there is an error: a reader that must wait for others keeps new ones out.
func (s *State) Convert(r *driver.Request, now Now) (h *Hold, changed bool, err error) {
	if h, err = s.heldBy(r.Token.Text(), now); err != nil {
		return nil, false, err
	}
	if h.Shared && !r.Shared {
		if s.Intent.Token != "" && s.Intent.Token != r.Token.Text() {
			return nil, false, driver.ErrPromotionConflict
		}
		if s.othersHold(r.Token.Text(), false, now) {
			s.Intent = Intent{r.Token.Text(), now.end(driver.MaxIntent)}
			return nil, true, s.HeldError(r.Token.Text(), now)
		}
		if err := s.mint(r.FenceAbove, now); err != nil {
			return nil, false, err
		}
		s.DropLapsed(now) // by another clock they may be live
		h = s.find(r.Token.Text())
		h.Fence = s.Fence
	}
	h.Shared = r.Shared
	h.extend(r.TTL, now)
	if s.Intent.Token == r.Token.Text() {
		s.Intent = Intent{}
	}
	return h, true, nil
}

// RaiseFence makes the fence of a live hold, and so every later one, at least the given one.
func (s *State) RaiseFence(token string, fence uint64, now Now) (changed bool, err error) {
	h, err := s.heldBy(token, now)
	if err != nil || h.Fence >= fence {
		return false, err
	}
	h.Fence = fence
	s.Fence = max(s.Fence, fence)
	return true, nil
}

// Break ends all holds and the cool-down, if the fence of the name is still the one that was seen,
// and mints a new one.
func (s *State) Break(seen uint64, now Now) (uint64, error) {
	if s.Fence != seen || seen == 0 {
		return 0, driver.ErrLost
	}
	if err := s.mint(0, now); err != nil {
		return 0, err
	}
	s.drop(func(Hold) bool { return true })
	s.Cool, s.Intent = 0, Intent{}
	return s.Fence, nil
}

// NextEnd returns when the next live hold, cool-down or intent ends, or 0.
func (s *State) NextEnd(now Now) Time {
	var next Time
	sooner := func(t Time) {
		if t > now.At && (next == 0 || t < next) {
			next = t
		}
	}
	for _, h := range s.Holds {
		sooner(h.Until)
	}
	sooner(s.Cool)
	sooner(s.Intent.Until)
	return next
}

// Idle reports whether the name has no live hold and no cool-down.
func (s *State) Idle(now Now) bool { return s.Cool <= now.At && !s.othersHold("", false, now) }

// Report returns the live holds and the cool-down, as Inspect and List report them. Their times are
// those of this process, where it is wall.
func (s *State) Report(name string, now Now, wall time.Time) driver.State {
	return driver.State{Name: name, Holds: s.others("", now, wall), Fence: s.Fence, Waiters: -1}
}

func (s *State) others(token string, now Now, wall time.Time) []driver.Hold {
	at := func(t Time) time.Time { return wall.Add(t.Sub(now.At)) }
	var out []driver.Hold
	for _, h := range s.Holds {
		if h.Until <= now.At || h.Token == token {
			continue
		}
		r := driver.Hold{Holder: h.Holder, Shared: h.Shared, Since: at(h.Since), Until: at(h.Until)}
		if h.Foreign {
			r.Foreign, r.Since = true, time.Time{}
		}
		if h.Holder.Plan > 0 {
			r.PlannedEnd = at(h.Since.Add(h.Holder.Plan))
		}
		out = append(out, r)
	}
	if s.Cool > now.At {
		out = append(out, driver.Hold{Cooling: true, Holder: s.Cooled, Until: at(s.Cool), PlannedEnd: at(s.Cool)})
	}
	return out
}

// HeldError returns the error for a request of token that must wait.
func (s *State) HeldError(token string, now Now) *driver.HeldError {
	err := &driver.HeldError{Holds: s.others(token, now, time.Now()), Waiters: -1}
	for _, h := range err.Holds {
		if h.Until.After(err.Until) {
			err.Until = h.Until
		}
	}
	return err
}
