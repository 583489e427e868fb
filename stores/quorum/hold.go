package quorum

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// hold is what this process knows of one hold. The value is made for the first request with the
// hold's token. It is removed when the hold has ended and no request is under way. The members may
// know more about the hold, so they are asked, too.
type hold struct {
	id      storekit.HoldID
	name    string
	token   driver.Token
	refs    int          // how many calls and requests use it
	turn    orderedMutex // lets one call in at a time; only that call may change the hold
	began   time.Time    // when the call that is under way came, before it waited for another call
	members []memberHold // one for each member

	tried   bool // this process asked for the hold itself, so it knows which members may have it
	live    bool // granted, and not over as far as this process knows
	mending bool // mendSoon will renew the hold
	request driver.Request
	fence   uint64
	mode    mode
	until   driver.Instant // when the lease is over
	bound   context.Context
	end     context.CancelCauseFunc // ends bound
}

// mode says whether a hold is exclusive or shared. A process can adopt a hold that another process
// acquired. It then does not know whether the hold is exclusive or shared, so the mode is unknown.
type mode int

const (
	unknown mode = iota
	exclusive
	shared
)

func modeOf(isShared bool) mode {
	if isShared {
		return shared
	}
	return exclusive
}

func (h *hold) isShared() bool {
	if h.mode == unknown {
		return h.request.Shared
	}
	return h.mode == shared
}

// note keeps what a later request for the hold needs, without its tokens.
func (h *hold) note(r driver.Request) {
	r.Token, r.Replaces, r.Spent = driver.Token{}, driver.Token{}, nil
	h.request = r
}

func (h *hold) setMode(isShared bool) { h.mode, h.request.Shared = modeOf(isShared), isShared }

func (s *Store) isLive(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.live
}

// lineUp returns how long a call waits, at most, for another call on the same hold. The argument
// rounds is how many times the call may then wait for the members, each time for up to the timeout
// of a request. All that must end within driver.MaxSilence. Under [All], members are asked one
// after the other, which takes longer.
func (s *Store) lineUp(rounds int) time.Duration {
	const least = 500 * time.Millisecond
	if s.rule == All {
		return least
	}
	return max(least, driver.MaxSilence-time.Duration(rounds)*(s.timeout(0)+2*grace))
}

// beginCall starts a call that may change the hold of token. If it returns no error, its caller
// must call finishCall. For rounds, see lineUp.
func (s *Store) beginCall(ctx context.Context, name, token string, rounds int) (*hold, error) {
	if err := s.calls.Begin(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	h := s.addUser(name, token)
	p := h.turn.enqueue()
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if p != nil {
		bounded, cancel = context.WithTimeout(ctx, s.lineUp(rounds))
	}
	defer cancel()
	if h.turn.await(bounded, p) == nil {
		h.began = began
		return h, nil
	}
	s.removeUser(h)
	s.calls.Work.Done()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, &failure{driver.ErrUnavailable, "another call for this hold is under way", nil}
}

func (s *Store) finishCall(h *hold) {
	h.turn.leave()
	s.removeUser(h)
	s.calls.Work.Done()
}

// addUser returns the hold of token, or makes one. The hold is kept until the caller calls
// removeUser.
func (s *Store) addUser(name, token string) *hold {
	key := storekit.IDOf(name, token)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holds[key]
	if h == nil {
		if len(s.holds) > 2*s.swept+64 {
			s.sweep()
		}
		h = &hold{id: key, name: name, token: driver.TokenOf(token), members: make([]memberHold, len(s.members))}
		s.holds[key] = h
	}
	h.refs++
	return h
}

func (s *Store) removeUser(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.refs--
	if h.refs == 0 && !h.live {
		delete(s.holds, h.id)
	}
}

// sweep forgets holds that were never released and whose leases are over. It runs when the number
// of holds has doubled, so it costs little per call.
func (s *Store) sweep() {
	now := s.clock.Now()
	for key, h := range s.holds {
		if h.refs == 0 && h.until <= now {
			h.unwatch()
			delete(s.holds, key)
		}
	}
	s.swept = len(s.holds)
}

// endHold marks the hold as over. The caller holds mu.
func (h *hold) endHold() {
	h.live = false
	h.unwatch()
}

func (h *hold) unwatch() {
	for i := range h.members {
		h.members[i].unwatch()
	}
}

// watch waits in the background until member i loses the hold because a connection or a process has
// ended. The member then ends the context holdCtx, and boundEnded is called. The caller of watch
// holds mu.
func (s *Store) watch(h *hold, i int, holdCtx context.Context) {
	sl := &h.members[i]
	if holdCtx == nil || holdCtx == sl.bound {
		return
	}
	sl.unwatch()
	sl.bound = holdCtx
	sl.stop = context.AfterFunc(holdCtx, func() { s.boundEnded(h, i, holdCtx) })
}

// boundEnded notes that member i lost the hold, because its connection or process ended. If fewer
// members than a quorum are left, boundEnded ends the whole hold.
func (s *Store) boundEnded(h *hold, i int, holdCtx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &h.members[i]
	if sl.bound != holdCtx {
		return
	}
	sl.bound, sl.stop, sl.has = nil, nil, false
	if h.end != nil && h.count(func(sl *memberHold) bool { return sl.has }) < s.need {
		h.end(context.Cause(holdCtx))
	}
}

func (h *hold) count(is func(*memberHold) bool) (n int) {
	for i := range h.members {
		if is(&h.members[i]) {
			n++
		}
	}
	return n
}

// leaseOf returns how long a hold can last, at most, after the last request for it. The caller
// holds mu.
func (s *Store) leaseOf(h *hold) time.Duration {
	return cmp.Or(h.request.TTL, unknownLease)
}

// unknownLease is the lease of a token for which this process has seen no request.
const unknownLease = time.Minute

// forever is the length of a lease that does not end by itself.
const forever = time.Duration(math.MaxInt64)

// leaseLeft returns how long the lease of g lasts for certain, counted from sentAt. sentAt is the
// instant just before the request was sent.
func leaseLeft(sentAt driver.Instant, g *driver.Grant) time.Duration {
	if g.TTL == 0 {
		return forever
	}
	d := g.TTL
	if g.From != 0 && g.From < sentAt {
		d -= sentAt.Sub(g.From)
	}
	return max(d, 1)
}

// leaseOfQuorum returns how long a quorum keeps the hold, counted from sentAt. It uses only the
// answers whose verdict is yes. sentAt is the instant just before the first request was sent. If
// the hold does not end by itself, leaseOfQuorum returns 0.
func (s *Store) leaseOfQuorum(sentAt driver.Instant, answers []answer) time.Duration {
	var ends []time.Duration
	for i := range answers {
		if answers[i].verdict == yes {
			ends = append(ends, leaseLeft(sentAt, &answers[i].grant))
		}
	}
	slices.Sort(ends)
	ttl := ends[len(ends)-s.need]
	if ttl == forever {
		return 0
	}
	if m := s.guarantees.MaxTTL; m > 0 {
		ttl = min(ttl, m)
	}
	return ttl
}

// grant updates h after answers have confirmed it, and returns its Grant. The caller holds mu.
func (s *Store) grant(h *hold, sent driver.Instant, answers []answer) driver.Grant {
	ttl := s.leaseOfQuorum(sent, answers)
	if ttl == 0 {
		h.until = math.MaxInt64
	} else {
		h.until = max(h.until, sent.Add(ttl))
	}
	for i := range answers {
		if answers[i].verdict == yes {
			s.watch(h, i, answers[i].grant.Bound)
		}
	}
	lasting := h.count(func(sl *memberHold) bool { return sl.has && sl.bound == nil })
	if h.bound == nil && lasting < s.need {
		h.bound, h.end = context.WithCancelCause(context.Background())
	}
	return driver.Grant{Fence: h.fence, TTL: ttl, Bound: h.bound, Shared: h.mode == shared || h.mode == unknown && s.toldShared(answers)}
}

// toldShared reports whether at least one member says that the hold is shared, and fewer members
// than a quorum say that it is exclusive. It is for holds whose mode this process does not know.
func (s *Store) toldShared(answers []answer) bool {
	told := 0
	for i := range answers {
		if answers[i].verdict == yes && answers[i].grant.Shared {
			told++
		}
	}
	return told > 0 && count(answers, yes)-told < s.need
}
