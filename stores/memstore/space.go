package memstore

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// space is shared by all handles of a store.
type space struct {
	id      string
	mu      sync.Mutex
	clock   driver.Clock
	entries map[string]*entry
	swept   int      // how many entries there were after the last sweep
	spare   []*entry // entries that can be reused; each has the name that it had last
	woken   *waiter  // the list of waiters whose onTurn is called when mu is unlocked

	// A free name is forgotten, so that it needs no memory. When it is taken again, its fence must
	// be greater than its earlier fences. So floor is the highest fence of the forgotten names,
	// without those in aheadOfClock. Every new fence of any name is greater than floor.
	floor uint64

	// aheadOfClock has the forgotten names whose fences are more than maxLead ahead of the clock,
	// because of FenceAbove or RaiseFence. These fences must not raise floor, because floor raises
	// the fences of all names. A name is removed when the clock has overtaken its fence.
	aheadOfClock map[string]uint64

	// Normally a fence is a time: the wall clock's time when the store was made (wallBase), plus
	// the time that has passed since then on the lease clock (clockBase). So setting the wall clock
	// does not change the fences.
	wallBase  int64
	clockBase driver.Instant
}

func newSpace(c driver.Clock) *space {
	return &space{
		id: rand.Text(), clock: c, wallBase: time.Now().UnixMicro(), clockBase: c.Now(),
		entries: make(map[string]*entry), aheadOfClock: make(map[string]uint64),
	}
}

// entry is a name that is held, was held until its lease ran out, is cooling down or has waiters.
type entry struct {
	name     string
	holds    []hold   // a hold whose lease ran out stays here until the next grant or its Release
	lost     []string // tokens of holds that ran out or were broken before other callers got the name
	fence    uint64   // the highest fence minted
	cooling  driver.Instant
	cooled   driver.Holder // the holder whose release began the cool-down
	intent   intent
	queue    []*waiter // in the order in which they came
	watchers []*waiter // waiters without a place: all are woken when a try may succeed
	alarm    driver.Instant
	stop     func() bool // stops the alarm; nil if no alarm is set
}

type hold struct {
	token   string
	shared  bool
	fence   uint64
	since   driver.Instant
	until   driver.Instant
	atLeast driver.Instant // the name stays taken until then, even after a Release
	holder  driver.Holder
}

// intent keeps new readers out while a reader that wants to be promoted waits until all other
// readers have left.
type intent struct {
	token string
	until driver.Instant
}

const maxSpare = 64

// maxLead is in microseconds. A forgotten name raises space.floor to its fence if the fence is at
// most maxLead ahead of the clock. A fence further ahead is kept in space.aheadOfClock, so that it
// does not raise the fences of other names.
const maxLead = 1_000_000

func (s *space) entry(name string) *entry {
	if e := s.entries[name]; e != nil {
		return e
	}
	if len(s.entries)+len(s.aheadOfClock) > 2*s.swept+64 {
		s.sweep()
	}
	var e *entry
	if n := len(s.spare); n > 0 {
		e, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		e = &entry{}
	}
	e.name, e.fence = name, s.aheadOfClock[name]
	delete(s.aheadOfClock, name)
	s.entries[name] = e
	return e
}

// nameFrom returns text as a name. It allocates nothing if the next spare entry had that name,
// which is usual if one caller takes and releases permits.
func (s *space) nameFrom(text []byte) string {
	if n := len(s.spare); n > 0 && s.spare[n-1].name == string(text) {
		return s.spare[n-1].name
	}
	return string(text)
}

// sweep forgets names whose holders let the lease run out and never came back. It also forgets the
// fences in aheadOfClock that are no longer ahead of the clock. It runs when the number of names
// has doubled, so its cost per name is small.
func (s *space) sweep() {
	now := s.clock.Now()
	for _, e := range s.entries {
		if !e.isBusy(now) {
			s.forget(e, now)
		}
	}
	maps.DeleteFunc(s.aheadOfClock, func(_ string, fence uint64) bool { return fence <= s.floor || fence < s.micros(now) })
	s.swept = len(s.entries) + len(s.aheadOfClock)
}

func (s *space) forget(e *entry, now driver.Instant) {
	if e.fence > s.micros(now)+maxLead {
		s.aheadOfClock[e.name] = e.fence
	} else {
		s.floor = max(s.floor, e.fence)
	}
	delete(s.entries, e.name)
	if e.stop != nil {
		e.stop()
	}
	if len(s.spare) < maxSpare {
		clear(e.holds)
		*e = entry{name: e.name, holds: e.holds[:0], queue: e.queue[:0], watchers: e.watchers[:0], lost: e.lost[:0]}
		s.spare = append(s.spare, e)
	}
}

// micros converts an instant to microseconds since 1970.
func (s *space) micros(t driver.Instant) uint64 {
	return uint64(max(0, s.wallBase+t.Sub(s.clockBase).Microseconds()))
}

// mint returns the next fence of e: microseconds since 1970, or one more than the last fence.
func (s *space) mint(e *entry, above uint64, now driver.Instant) (uint64, error) {
	fence := max(e.fence+1, s.floor+1, above+1, s.micros(now))
	if fence >= driver.MaxFence {
		return 0, driver.ErrFencesUsedUp
	}
	e.fence = fence
	return fence, nil
}

func (s *space) grant(e *entry, r *driver.Request, now driver.Instant) (driver.Grant, error) {
	h, err := s.add(e, r, now)
	if err != nil {
		s.tidy(e, now)
		return driver.Grant{}, err
	}
	h.extendLease(now, max(r.TTL, r.AtLeast))
	return h.toGrant(now), nil
}

// add makes a hold, and removes the holds whose leases ran out. The caller must set the lease of
// the new hold.
//
// Readers that hold the name together share a fence. The first of them gets a new fence, because
// the last writer may not have noticed the end of its lease and must not have the same fence as the
// readers.
func (s *space) add(e *entry, r *driver.Request, now driver.Instant) (*hold, error) {
	fence := e.fence
	if !r.Shared || !e.hasReader(now) || r.FenceAbove >= fence {
		var err error
		if fence, err = s.mint(e, r.FenceAbove, now); err != nil {
			return nil, err
		}
	}
	e.dropLapsed(now)
	e.holds = append(e.holds, hold{token: r.Token, shared: r.Shared, fence: fence, since: now, holder: r.Holder})
	h := &e.holds[len(e.holds)-1]
	if r.AtLeast > 0 {
		h.atLeast = now.Add(r.AtLeast)
	}
	return h, nil
}

// repeatGrant returns the grant for a request whose token already has the hold h. Either the reply
// to an earlier request was lost, or this request sets AtLeast.
func (s *space) repeatGrant(h *hold, r *driver.Request, now driver.Instant) driver.Grant {
	if r.AtLeast > 0 {
		h.atLeast = max(h.atLeast, now.Add(r.AtLeast))
	}
	h.extendLease(now, max(r.TTL, h.atLeast.Sub(now)))
	return h.toGrant(now)
}

func (s *space) replace(e *entry, r *driver.Request, now driver.Instant) (driver.Grant, error) {
	h := e.live(r.Replaces, now)
	if h == nil {
		s.tidy(e, now)
		return driver.Grant{}, driver.ErrLost
	}
	fence, err := s.mint(e, r.FenceAbove, now)
	if err != nil {
		return driver.Grant{}, err
	}
	if e.intent.token == h.token {
		e.intent.token = r.Token
	}
	h.token, h.holder, h.since, h.fence = r.Token, r.Holder, now, fence
	if r.AtLeast > 0 {
		h.atLeast = max(h.atLeast, now.Add(r.AtLeast))
	}
	h.extendLease(now, max(r.TTL, r.AtLeast))
	return h.toGrant(now), nil
}

// liveHold returns the live hold of token, or the error that says why there is none.
func (s *space) liveHold(name, token string, now driver.Instant) (*hold, error) {
	e := s.entries[name]
	if e == nil {
		return nil, driver.ErrLost
	}
	h := e.find(token)
	switch {
	case h == nil:
		return nil, driver.ErrLost
	case h.until <= now:
		return nil, driver.ErrExpired
	}
	return h, nil
}

// tidy forgets e if nothing in it is needed any more.
func (s *space) tidy(e *entry, now driver.Instant) {
	if len(e.holds) == 0 && len(e.queue) == 0 && len(e.watchers) == 0 && e.cooling <= now && s.entries[e.name] == e {
		s.forget(e, now)
	}
}

// extendLease makes the lease of h last at least ttl from now.
func (h *hold) extendLease(now driver.Instant, ttl time.Duration) {
	h.until = max(h.until, now.Add(ttl))
}

func (h *hold) toGrant(now driver.Instant) driver.Grant {
	return driver.Grant{Fence: h.fence, From: now, TTL: h.until.Sub(now), Shared: h.shared}
}

// limited returns g with at most the longest lease. With AtLeast, the name stays taken for longer,
// but the holder must extend the hold to work for longer.
func (s *Store) limited(g driver.Grant) driver.Grant {
	g.TTL = min(g.TTL, s.guarantees.MaxTTL)
	return g
}
