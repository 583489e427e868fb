package metrics

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/group"
)

// Metrics is an observer of any number of Lockers, and an http.Handler that shows the figures. Its
// methods are safe for concurrent use.
type Metrics struct {
	group func(name string) string
	bound group.Bound

	mu        sync.RWMutex
	all       map[place]*series
	elections map[string]candidate
	caches    map[string]cache
}

var _ padlock.Observer = (*Metrics)(nil)

// place is the key of a series. All locks of one store and one group share a series.
type place struct{ store, group string }

// candidate is an *election.Election.
type candidate interface{ Leads() bool }

// cache is a *stampede.Cache.
type cache interface {
	Figures() (hits, stale, misses, runs, errors uint64)
}

// Option configures Metrics.
type Option func(*Metrics)

// Group makes f choose the group of a name. f must be quick and safe for concurrent use, and must
// return the same group for a name each time. The default, which nil leaves in place, is the text
// before the first ':' or '/'; a name without them is its own group.
func Group(f func(name string) string) Option {
	return func(m *Metrics) {
		if f != nil {
			m.group = f
		}
	}
}

// New returns Metrics without any figures.
func New(opts ...Option) *Metrics {
	m := &Metrics{
		group: group.Of,
		all:   make(map[place]*series), elections: make(map[string]candidate),
		caches: make(map[string]cache),
	}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m
}

// Election adds the figure padlock_election_leading for the candidate e. The argument name becomes
// the value of the label "election".
func (m *Metrics) Election(name string, e interface{ Leads() bool }) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.elections[name] = e
}

// Stampede adds the figures of a *stampede.Cache. The argument name becomes the value of the label
// "cache".
func (m *Metrics) Stampede(name string, c interface {
	Figures() (hits, stale, misses, runs, errors uint64)
}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.caches[name] = c
}

// Observe counts an event. It implements padlock.Observer.
func (m *Metrics) Observe(_ context.Context, e padlock.Event) {
	if e.Kind == padlock.EventReleased || e.Kind == padlock.EventConverted { // Metrics does not count these events
		return
	}
	m.seriesOf(e.Store, e.Name).count(&e)
}

// seriesOf returns the figures for a name.
func (m *Metrics) seriesOf(store, name string) *series {
	p := place{store, m.group(name)}
	m.mu.RLock()
	s := m.all[p]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	p.group = m.bound.Limit(store, p.group)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[p] == nil {
		m.all[p] = new(series)
	}
	return m.all[p]
}

const (
	modes     = int(padlock.ModeShared) + 1
	outcomes  = int(padlock.OutcomeError) + 1
	handOvers = int(padlock.HandOverByRelease) + 1
)

// series are the figures of one place.
type series struct {
	wait, use [modes][outcomes]atomic.Pointer[histogram]
	slack     histogram
	renewal   histogram

	pending                              atomic.Int64
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
		s.began(e)
		s.handedOver[e.HandOver].Add(1)
	case padlock.EventRefused:
		s.began(e)
	case padlock.EventRenewed:
		s.slack.add(e.Slack)
		s.renewal.add(e.Took)
	case padlock.EventRenewFailed:
		s.failed.Add(1)
	case padlock.EventReleasing:
		histogramOf(&s.use, e.Mode, padlock.OutcomeReleased).add(e.Took)
	case padlock.EventEnded, padlock.EventLost:
		s.endHold(e)
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

// began counts the end of an acquire.
func (s *series) began(e *padlock.Event) {
	s.pending.Add(-1)
	histogramOf(&s.wait, e.Mode, e.Outcome).add(e.Took)
}

// endHold counts the end of a hold.
func (s *series) endHold(e *padlock.Event) {
	histogramOf(&s.use, e.Mode, e.Outcome).add(e.Took)
	if e.Kind == padlock.EventLost {
		s.lost[e.Outcome].Add(1)
	}
}

// heldNow returns how many locks are held now: the number of grants minus the number of holds that
// have ended. It counts the ended holds before the grants, because otherwise the result could be
// negative.
func (s *series) heldNow() int64 {
	ends := count(&s.use, func(padlock.Outcome) bool { return true })
	return count(&s.wait, func(o padlock.Outcome) bool { return o == padlock.OutcomeAcquired }) - ends
}

// count returns the number of durations in the histograms of the outcomes that are wanted.
func count(all *[modes][outcomes]atomic.Pointer[histogram], wanted func(padlock.Outcome) bool) (n int64) {
	for mode := range all {
		for outcome := range all[mode] {
			if h := all[mode][outcome].Load(); h != nil && wanted(padlock.Outcome(outcome)) {
				buckets, _ := h.read()
				for _, k := range buckets {
					n += int64(k)
				}
			}
		}
	}
	return n
}

// histogramOf returns the histogram for the mode and the outcome of an event, and makes it if there
// is none.
func histogramOf(all *[modes][outcomes]atomic.Pointer[histogram], mode padlock.Mode, outcome padlock.Outcome) *histogram {
	slot := &all[mode][outcome]
	if h := slot.Load(); h != nil {
		return h
	}
	slot.CompareAndSwap(nil, new(histogram))
	return slot.Load()
}
