package memstore

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/decide"
)

// space is shared by all handles of a store.
type space struct {
	id      string
	mu      sync.Mutex
	clock   driver.Clock
	entries map[string]*entry
	swept   int     // how many entries there were after the last sweep
	woken   *waiter // the list of waiters whose onTurn is called when mu is unlocked

	// A free name is forgotten, so that it needs no memory. When it is taken again, its fence must
	// be greater than its earlier fences. So floor is the highest fence of the forgotten names,
	// without those in aheadOfClock. The first fence of a new entry is greater than floor.
	floor uint64

	// aheadOfClock has the forgotten names whose fences are more than maxLead ahead of the clock,
	// because of FenceAbove or RaiseFence. These fences must not raise floor, because floor raises
	// the fences of all names. A name is removed when the clock has overtaken its fence.
	aheadOfClock map[string]uint64

	// The time of a decision is the wall clock's time when the store was made (wallBase), plus the
	// time that has passed since then on the lease clock (clockBase). So setting the wall clock
	// changes neither leases nor fences.
	wallBase  decide.Time
	clockBase driver.Instant
}

func newSpace(c driver.Clock) *space {
	return &space{
		id: rand.Text(), clock: c, wallBase: decide.Time(time.Now().UnixMicro()), clockBase: c.Now(),
		entries: make(map[string]*entry), aheadOfClock: make(map[string]uint64),
	}
}

// entry is a name that is held, was held until its lease ran out, is cooling down or has waiters.
type entry struct {
	name string
	decide.State
	queue    []*waiter // in the order in which they came
	watchers []*waiter // waiters without a place: all are woken when a try may succeed
	alarm    decide.Time
	stop     func() bool // stops the alarm; nil if no alarm is set
}

// A moment is the time of a decision. The instant is the same time on the lease clock.
type moment struct {
	decide.Now
	instant driver.Instant
}

func (s *space) now() moment {
	now := moment{instant: s.clock.Now()}
	age := now.instant.Sub(s.clockBase)
	now.At = s.wallBase.Add(age)
	now.Wall = int64(now.At)
	now.Slack = age % time.Microsecond
	return now
}

// maxLead is in microseconds. A forgotten name raises space.floor to its fence if the fence is at
// most maxLead ahead of the clock. A fence further ahead is kept in space.aheadOfClock, so that it
// does not raise the fences of other names.
const maxLead = 1_000_000

// entry returns the entry of a name, and makes it if there is none.
func (s *space) entry(name string, now moment) *entry {
	if e := s.entries[name]; e != nil {
		e.Trim(now.Now)
		return e
	}
	if len(s.entries)+len(s.aheadOfClock) > 2*s.swept+64 {
		s.sweep(now)
	}
	e := &entry{name: name}
	e.Fence = max(s.floor, s.aheadOfClock[name])
	delete(s.aheadOfClock, name)
	s.entries[name] = e
	return e
}

// known returns the entry of a name. If there is none, it returns one for a name that was never
// used.
func (s *space) known(name string, now moment) *entry {
	e := s.entries[name]
	if e == nil {
		return &entry{}
	}
	e.Trim(now.Now)
	return e
}

// sweep forgets names whose holders let the lease run out and never came back. It also forgets the
// fences in aheadOfClock that are no longer ahead of the clock. It runs when the number of names
// has doubled, so its cost per name is small.
func (s *space) sweep(now moment) {
	for _, e := range s.entries {
		if !e.isBusy(now) {
			s.forget(e, now)
		}
	}
	maps.DeleteFunc(s.aheadOfClock, func(_ string, fence uint64) bool { return fence <= s.floor || fence < uint64(now.Wall) })
	s.swept = len(s.entries) + len(s.aheadOfClock)
}

func (s *space) forget(e *entry, now moment) {
	if e.Fence > uint64(now.Wall)+maxLead {
		s.aheadOfClock[e.name] = e.Fence
	} else {
		s.floor = max(s.floor, e.Fence)
	}
	delete(s.entries, e.name)
	if e.stop != nil {
		e.stop()
	}
}

// tidy forgets e if nothing in it is needed any more.
func (s *space) tidy(e *entry, now moment) {
	if len(e.Holds) == 0 && len(e.queue) == 0 && len(e.watchers) == 0 && e.Cool <= now.At && s.entries[e.name] == e {
		s.forget(e, now)
	}
}

// take makes one try to grant r. If it is refused, e is forgotten if nothing else is in it.
func (s *Store) take(e *entry, r *driver.Request, now moment) (driver.Grant, error) {
	h, err := e.AcquireInTurn(r, len(e.queue) == 0, now.Now)
	if err != nil {
		s.tidy(e, now)
		return driver.Grant{}, e.countWaiters(err)
	}
	return s.grant(h, r.TTL, now), nil
}

// grant returns a hold as the caller gets it, with at most the longest lease of this
// handle. asked is the lease that the caller has asked for: in the State it ends up to a
// microsecond later.
func (s *Store) grant(h *decide.Hold, asked time.Duration, now moment) driver.Grant {
	left := h.Until.Sub(now.At) - now.Slack
	ttl := max(1, asked+(left-asked).Truncate(time.Microsecond)) // 0 would be no lease
	return driver.Grant{Fence: h.Fence, From: now.instant, TTL: min(ttl, s.guarantees.MaxTTL), Shared: h.Shared}
}
