package mutants

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/integration/chaos/linear"
	"github.com/padlock-go/padlock/internal/integration/chaos/soak"
	"github.com/padlock-go/padlock/memstore"
)

// A mutant is a broken store, and what must see it.
type mutant struct {
	name   string
	within int      // operations
	seen   []string // one of these invariants, or "porcupine"
	clock  driver.Clock
	load   func(*soak.Load)
	open   func(driver.Store, *shared) driver.Store
	fault  func(*shared)
}

var mutants = []mutant{
	{name: "release without the owner check", within: 1000, seen: []string{"I1"}, load: paused,
		open: func(s driver.Store, k *shared) driver.Store { return anyRelease{wrap{s}, k} }},
	{name: "window from the reply", within: 1000, seen: []string{"I1"}, load: paused,
		open: func(s driver.Store, k *shared) driver.Store { return fromReply{wrap{s}, k} }},
	{name: "no drift margin", within: 1000, seen: []string{"I1"}, load: paused, clock: fast{driver.SystemClock()},
		open: func(s driver.Store, _ *shared) driver.Store { return noMargin{wrap{onServer{wrap{s}}}} }},
	{name: "promotion without the sole-reader test", within: 2000, seen: []string{"I1"},
		load: func(l *soak.Load) { l.Shared, l.Convert = 50, 20 },
		open: func(s driver.Store, _ *shared) driver.Store { return anyPromotion{wrap{s}} }},
	{name: "a late extend after the release", within: 2000, seen: []string{"I6", "I8"},
		open: func(s driver.Store, k *shared) driver.Store { return revival{wrap{s}, k} }},
	{name: "INCR as fence over restarts", within: 2000, seen: []string{"I2"},
		load:  func(l *soak.Load) { l.HandOff, l.Convert, l.Shared = 0, 0, 0 },
		open:  func(s driver.Store, k *shared) driver.Store { return counting{wrap{s}, k} },
		fault: func(k *shared) { counting{shared: k}.restart() }},
	{name: "a waiter that misses a wake-up", within: 2000, seen: []string{"I6"}, load: func(l *soak.Load) { l.Pause = 0 },
		open: func(s driver.Store, k *shared) driver.Store { return deaf{wrap{s}, k} }},
	{name: "a reservation never reclaimed", within: 2000, seen: []string{"I6"}, load: func(l *soak.Load) { l.Cancel = 10 },
		open: func(s driver.Store, _ *shared) driver.Store { return keeping{wrap{s}} }},
}

// paused makes holders outlive their leases often.
func paused(l *soak.Load) { l.Pause, l.MaxTTL = 200, 800*time.Millisecond }

// run makes a short soak of m, or of the store that it breaks.
func (m *mutant) run(t *testing.T, open func(driver.Store, *shared) driver.Store) (*soak.Report, linear.Verdict) {
	t.Helper()
	var opts []memstore.Option
	if m.clock != nil {
		opts = append(opts, memstore.WithClock(m.clock))
	}
	first, known := memstore.New(opts...), newShared()
	load := soak.DefaultLoad()
	load.Hot, load.Warm, load.MinHold, load.MaxHold, load.Own = 2, 8, 0, 2*time.Millisecond, 5
	load.Epoch = time.Minute
	if m.load != nil {
		m.load(&load)
	}
	r := &soak.Run{
		Name: m.name, Seed: 6, For: 5 * time.Second, Workers: 2, Goroutines: 6, Load: load, Guarantees: first.Guarantees(),
		Open: func(context.Context, string) (driver.Store, error) { return open(first.Open(), known), nil },
	}
	if m.fault != nil {
		r.Every = time.Second
		r.Faults = []soak.Fault{{Kind: "restart", Begin: begin(func() { m.fault(known) })}}
	}
	o, err := r.Do(t.Context())
	if err != nil {
		t.Error(err)
		return nil, linear.Verdict{}
	}
	v, err := linear.Check(o.Events, false, "", 10*time.Second)
	if err != nil {
		t.Error(err)
	}
	return soak.NewReport(r, o), v
}

// healthy hides the clock of a store in memory, as a server's is hidden, and
// breaks nothing.
func healthy(s driver.Store, _ *shared) driver.Store { return onServer{wrap{s}} }

// TestMutants lets every mutant, and beside it a store that is not broken
// under the same load, work for a few seconds.
func TestMutants(t *testing.T) {
	var all sync.WaitGroup
	for i := range mutants {
		m := &mutants[i]
		all.Go(func() { m.mustBeCaught(t) })
		all.Go(func() { m.mustPass(t) })
	}
	all.Wait()
}

func (m *mutant) mustBeCaught(t *testing.T) {
	p, v := m.run(t, m.open)
	if p == nil {
		return
	}
	if p.Grants > m.within {
		t.Errorf("%s had %d operations, %d must do", m.name, p.Grants, m.within)
	}
	caught := slices.ContainsFunc(m.seen, func(s string) bool { return p.Violations[s] > 0 })
	if !caught {
		t.Errorf("nobody saw it; wanted one of %v\n%s", m.seen, text(p, v))
	}
	t.Logf("%s: %s (porcupine: %v)", m.name, p.Measured(), v)
}

func (m *mutant) mustPass(t *testing.T) {
	p, v := m.run(t, healthy)
	if p != nil && (p.Sum() > 0 || v.Illegal > 0 || v.Unknown > 0) {
		t.Errorf("a store that is not broken, under the load of %q\n%s", m.name, text(p, v))
	}
}

func text(p *soak.Report, v linear.Verdict) string {
	p.Verdict = v.String()
	var b strings.Builder
	p.Write(&b)
	return b.String()
}
