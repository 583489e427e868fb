package metrics

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/group"
)

// DefaultMaxGroups is how many groups a store has at most if MaxGroups is not given.
const DefaultMaxGroups = 100

// Other is the group of the names that have no group of their own because there are too many
// groups.
const Other = "_other"

// Metrics is an observer of any number of Lockers, and an http.Handler that shows the figures. Its
// methods are safe for concurrent use.
type Metrics struct {
	group func(name string) string
	most  int

	mu        sync.RWMutex
	all       map[place]*series
	groups    map[string]int // how many groups each store has
	elections map[string]candidate

	// recent has figures that were used lately, by a hash of the name. To find figures in it takes
	// a fraction of the time of group and all.
	seed   maphash.Seed
	recent [recentMost]atomic.Pointer[found]
}

// recentMost bounds the memory of Metrics.recent. Each found can keep a name of driver.MaxName
// bytes.
const recentMost = 256

// A found has the figures of one name.
type found struct {
	store, name string
	series      *series
}

var _ padlock.Observer = (*Metrics)(nil)

// place is where a lock is counted.
type place struct{ store, group string }

// candidate is an *election.Election.
type candidate interface{ Leads() bool }

// Option configures Metrics.
type Option func(*Metrics)

// Group makes f choose the group of a name. f must be quick and safe for concurrent use, and must
// return the same group for a name each time. If f is nil, Group does nothing.
func Group(f func(name string) string) Option {
	return func(m *Metrics) {
		if f != nil {
			m.group = f
		}
	}
}

// MaxGroups limits the number of groups of a store, without Other. With 0, all names belong to
// Other. With less than 0, MaxGroups does nothing.
func MaxGroups(n int) Option {
	return func(m *Metrics) {
		if n >= 0 {
			m.most = n
		}
	}
}

// New returns Metrics without any figures.
func New(opts ...Option) *Metrics {
	m := &Metrics{
		group: group.Of, most: DefaultMaxGroups,
		all: make(map[place]*series), groups: make(map[string]int), elections: make(map[string]candidate),
		seed: maphash.MakeSeed(),
	}
	for _, o := range opts {
		o(m)
	}
	return m
}

// Election adds the figure padlock_election_leading for the candidate e. Its label election has the
// value name.
func (m *Metrics) Election(name string, e interface{ Leads() bool }) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.elections[name] = e
}

// Observe counts an event. It implements padlock.Observer.
func (m *Metrics) Observe(_ context.Context, e padlock.Event) {
	if e.Kind == padlock.EventReleased || e.Kind == padlock.EventConverted { // they have no figures
		return
	}
	slot := &m.recent[maphash.String(m.seed, e.Name)%recentMost]
	f := slot.Load()
	if f == nil || f.name != e.Name || f.store != e.Store {
		f = &found{e.Store, e.Name, m.at(e.Store, e.Name)}
		slot.Store(f)
	}
	f.series.count(&e)
}

// The method at returns the figures for a name.
func (m *Metrics) at(store, name string) *series {
	p := place{store, m.group(name)}
	m.mu.RLock()
	s := m.all[p]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.all[p]; s != nil {
		return s
	}
	if p.group != Other && m.groups[store] >= m.most {
		if p.group = Other; m.all[p] != nil {
			return m.all[p]
		}
	}
	p.group = strings.Clone(p.group) // otherwise the whole name would be kept
	if p.group != Other {
		m.groups[store]++
	}
	s = new(series)
	m.all[p] = s
	return s
}

const (
	modes     = int(padlock.ModeShared) + 1
	outcomes  = int(padlock.OutcomeError) + 1
	handOvers = int(padlock.HandOverInMemory) + 1
)

// series are the figures of one place.
type series struct {
	wait, use [modes][outcomes]atomic.Pointer[histogram]
	slack     histogram
	renewal   histogram

	held, pending                        atomic.Int64
	contended, forgotten, failed, unsure atomic.Uint64
	cleaned, dropped                     atomic.Uint64
	handedOver                           [handOvers]atomic.Uint64
	lost                                 [outcomes]atomic.Uint64
}

// count counts one event. The comments of padlock's EventKinds say which events begin and end an
// acquire and a hold.
func (s *series) count(e *padlock.Event) {
	switch e.Kind {
	case padlock.EventAcquiring:
		s.pending.Add(1)
	case padlock.EventContended:
		s.contended.Add(1)
	case padlock.EventAcquired:
		s.pending.Add(-1)
		s.held.Add(1)
		at(&s.wait, e).add(e.Took)
		if way := int(e.HandOver); 0 < way && way < handOvers {
			s.handedOver[way].Add(1)
		}
	case padlock.EventRefused:
		s.pending.Add(-1)
		at(&s.wait, e).add(e.Took)
	case padlock.EventRenewed:
		s.slack.add(e.Slack)
		s.renewal.add(e.Took)
	case padlock.EventRenewFailed:
		s.failed.Add(1)
	case padlock.EventReleasing, padlock.EventEnded, padlock.EventLost:
		s.end(e)
	case padlock.EventForgotten:
		s.forgotten.Add(1)
	case padlock.EventUncertain:
		s.unsure.Add(1)
	case padlock.EventCleaned:
		s.cleaned.Add(1)
	case padlock.EventDropped:
		s.dropped.Add(1)
	}
}

// end counts the end of a hold.
func (s *series) end(e *padlock.Event) {
	s.held.Add(-1)
	ended := *e
	if e.Kind == padlock.EventReleasing {
		ended.Outcome = padlock.OutcomeReleased
	}
	at(&s.use, &ended).add(e.Took)
	if e.Kind == padlock.EventLost {
		s.lost[within(int(e.Outcome), outcomes)].Add(1)
	}
}

// The method at returns the histogram for the mode and the outcome of an event.
func at(all *[modes][outcomes]atomic.Pointer[histogram], e *padlock.Event) *histogram {
	slot := &all[within(int(e.Mode), modes)][within(int(e.Outcome), outcomes)]
	if h := slot.Load(); h != nil {
		return h
	}
	slot.CompareAndSwap(nil, new(histogram))
	return slot.Load()
}

// within returns i, or the last index if i is a value that a later version of padlock may have.
func within(i, n int) int {
	if i < 0 || i >= n {
		return n - 1
	}
	return i
}

// bounds are the upper bounds of the buckets. The last bucket has no upper bound.
var bounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
}

// histogram counts durations. The sum of the buckets is the number of all durations.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
}

func (h *histogram) add(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}
