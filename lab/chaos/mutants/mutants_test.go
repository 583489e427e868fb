package mutants

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/chaos/rig"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// A mutant is a broken store, and the check that must notice it.
type mutant struct {
	name   string
	within int                                      // operations
	seen   []string                                 // one of these invariants
	saying string                                   // a part of the text of the violation, or ""
	sound  func(driver.Store, *shared) driver.Store // the same store without the bug; nil: healthy
	clock  driver.Clock
	quick  bool // it needs a server whose clock gains 0.8 %
	load   func(*soak.Load)
	open   func(driver.Store, *shared) driver.Store
	fault  func(*shared)
}

var mutants = []mutant{
	{name: "release without the owner check", within: 4000, seen: []string{"I1"}, load: paused,
		open: func(s driver.Store, k *shared) driver.Store { return anyRelease{wrap{s}, k} }},
	{name: "window from the reply", within: 4000, seen: []string{"I1"}, load: paused,
		open: func(s driver.Store, k *shared) driver.Store { return fromReply{wrap{s}, k} }},
	{name: "no drift margin", within: 8000, seen: []string{"I1"}, load: paused, quick: true, clock: fastClock{driver.SystemClock()},
		open: func(s driver.Store, _ *shared) driver.Store { return noMargin{wrap{onServer{wrap{s}}}} }},
	{name: "promotion without the sole-reader test", within: 2000, seen: []string{"I1", "I2"},
		load: func(l *soak.Load) { l.Shared, l.Convert, l.MaxHold = 60, 20, 10*time.Millisecond },
		open: func(s driver.Store, _ *shared) driver.Store { return anyPromotion{wrap{s}} }},
	{name: "a late extend after the release", within: 2000, seen: []string{"I6", "I8"},
		open: func(s driver.Store, k *shared) driver.Store { return revival{wrap{s}, k} }},
	{name: "INCR as fence over restarts", within: 2000, seen: []string{"I2"},
		load:  func(l *soak.Load) { l.HandOff, l.Convert, l.Shared = 0, 0, 0 },
		open:  func(s driver.Store, k *shared) driver.Store { return counting{wrap{s}, k} },
		fault: func(k *shared) { counting{shared: k}.restart() }},
	{name: "a waiter that misses a wake-up", within: 20_000, seen: []string{"I6"}, load: func(l *soak.Load) { l.Pause = 0 },
		open: func(s driver.Store, k *shared) driver.Store { return deaf{wrap{s}, k} }},
	{name: "a waiter that misses a wake-up while others go on", within: 4000, seen: []string{"I6"}, saying: "was refused", load: patientCrowd,
		open: func(s driver.Store, k *shared) driver.Store {
			return starved{deaf{wrap{s}, k}, k.every(2, "open")}
		}},
	{name: "a cool-down that does not last", within: 8000, seen: []string{"I9"}, load: keeping20,
		open: func(s driver.Store, _ *shared) driver.Store { return noCoolDown{onServer{wrap{s}}} }},
	{name: "a break that does not look at the fence", within: 4000, seen: []string{"I8"}, load: func(l *soak.Load) { l.Own, l.Break = 30, 60 },
		open: func(s driver.Store, _ *shared) driver.Store { return anyBreak{onServer{wrap{s}}} }},
	{name: "a waiter that stands in no queue", within: 8000, seen: []string{"I6"}, saying: "was granted first", load: crowded,
		open: func(s driver.Store, k *shared) driver.Store {
			return unqueued{onServer{wrap{s}}, k, k.every(2, "open")}
		}},
	{name: "a hand-over whose reply is lost and that nobody cleans up", within: 4000, seen: []string{"I6", "I8"}, load: orphaning,
		sound: func(s driver.Store, k *shared) driver.Store { return lossyPass{passing{onServer{wrap{s}}}, k} },
		open: func(s driver.Store, k *shared) driver.Store {
			return orphaned{lossyPass{passing{onServer{wrap{s}}}, k}}
		}},
	{name: "a waiter that gave up and keeps its place while its process waits for another name", within: 200_000, seen: []string{"I6"}, saying: "not to be had", load: impatient,
		open:  func(s driver.Store, k *shared) driver.Store { return &haunted{onServer: onServer{wrap{s}}, shared: k} },
		fault: func(*shared) {}}, // there is always a fault that would excuse a waiter's late grant
	{name: "a reservation never reclaimed", within: 2000, seen: []string{"I6"}, load: func(l *soak.Load) { l.Cancel = 10 },
		open: func(s driver.Store, _ *shared) driver.Store { return keeping{wrap{s}} }},
}

// keeping20 makes many names stay taken.
func keeping20(l *soak.Load) { l.Cool, l.AtLeast = 20, 20 }

// crowded makes all workers wait for few names, and give up at times.
func crowded(l *soak.Load) {
	l.Hot, l.Warm, l.Cancel, l.MaxHold, l.Pause, l.Try, l.Shared, l.Convert, l.HandOff = 1, 1, 10, 10*time.Millisecond, 0, 0, 0, 0, 0
}

// patientCrowd makes all workers wait for one name until they get it.
func patientCrowd(l *soak.Load) {
	crowded(l)
	l.Cancel, l.ToHot, l.Own, l.Several, l.Slots = 0, 100, 0, 0, 0
}

// orphaning makes many waiters give up. The leases are longer than any waiter waits.
func orphaning(l *soak.Load) {
	crowded(l)
	l.Cancel, l.MaxHold, l.MinTTL, l.MaxTTL = 30, time.Millisecond, 2500*time.Millisecond, 3*time.Second
}

// impatient makes many waiters give up while another one waits for long.
func impatient(l *soak.Load) { l.Short, l.Pause, l.Cool, l.AtLeast = 40, 0, 0, 0 }

// paused makes holders outlive their leases often.
func paused(l *soak.Load) { l.Pause, l.MaxTTL = 200, 800*time.Millisecond }

// A place opens handles on one store.
type place func(context.Context) (driver.Store, error)

func (m *mutant) memory() place {
	var opts []memstore.Option
	if m.clock != nil {
		opts = append(opts, memstore.WithClock(m.clock))
	}
	first := memstore.New(opts...)
	return func(context.Context) (driver.Store, error) { return first.Open(), nil }
}

// redis is a place with its own prefix on a server that many tests share.
func redis(addr, prefix string) place {
	return patient(func(ctx context.Context) (driver.Store, error) {
		return redisstore.Open(ctx, redisstore.Config{Addrs: []string{addr}}, redisstore.Prefix(prefix))
	})
}

// patient tries a connection again that is slow or that a fault ends. All mutants connect at once
// while other tests keep the machine busy.
func patient(open place) place {
	return func(ctx context.Context) (driver.Store, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for {
			s, err := open(ctx)
			switch {
			case err == nil:
				return s, nil
			case ctx.Err() != nil || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain):
				return nil, err
			}
			<-time.After(100 * time.Millisecond)
		}
	}
}

// room bounds how many soaks run at once. With more of them, each is starved, and a slow call
// excuses the store from the checks of waiting.
var room = make(chan struct{}, 16)

// run makes a short soak of the mutant's broken store.
func (m *mutant) run(t *testing.T, at place, seed uint64, open func(driver.Store, *shared) driver.Store) (*soak.Report, *soak.Outcome) {
	t.Helper()
	known := newShared()
	load := soak.DefaultLoad()
	load.Hot, load.Warm, load.ToHot, load.MinHold, load.MaxHold, load.Own = 2, 8, 20, 0, 2*time.Millisecond, 5
	load.Epoch = time.Minute
	if m.load != nil {
		m.load(&load)
	}
	r := &soak.Run{
		Name: m.name, Seed: seed, For: 5 * time.Second, Workers: 2, Goroutines: 6, Load: load,
		Open: func(ctx context.Context, _ string) (driver.Store, error) {
			s, err := at(ctx)
			if err != nil {
				return nil, err
			}
			return open(s, known), nil
		},
	}
	if m.fault != nil {
		r.Every = 300 * time.Millisecond // so that a quick machine soon has the next fault
		r.Faults = []soak.Fault{{Kind: "restart", Begin: begin(func() { m.fault(known) })}}
	}
	room <- struct{}{}
	o, err := r.Do(t.Context())
	<-room
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	return soak.NewReport(r, o), o
}

// healthy hides the clock of a store in memory, as a server's clock is hidden, and breaks nothing.
func healthy(s driver.Store, _ *shared) driver.Store { return onServer{wrap{s}} }

// TestInMemory runs every mutant for a few seconds, and for comparison a store that is not broken
// under the same load.
func TestInMemory(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for _, m := range slices.Concat(mutants, many) {
		all.Go(func() { m.mustBeCaught(t, m.memory()) })
		all.Go(func() { m.mustPass(t, m.memory()) })
	}
	all.Wait()
}

// TestOnRedis does the same on two servers. The clock of one of them runs fast.
func TestOnRedis(t *testing.T) {
	t.Parallel()
	addr := server.Redis(t, server.RedisOptions{}).Addr()
	quick := quickServer(t)
	var all sync.WaitGroup
	for i, m := range slices.Concat(mutants, many) {
		on := addr
		if m.quick {
			on = quick
		}
		all.Go(func() { m.mustBeCaught(t, redis(on, fmt.Sprint("mutant", i, ":"))) })
	}
	all.Go(func() { mutants[0].mustPass(t, redis(addr, "healthy:")) })
	all.Go(func() { mutants[0].mustPass(t, redis(quick, "healthy:")) })
	all.Wait()
}

// quickServer returns the address of a Redis server whose clock gains 0.8 %, as the fast clock in
// memory does.
func quickServer(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no C compiler for the clock shim")
	}
	site, err := rig.NewSite(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.End(); err != nil {
			t.Error(err)
		}
	})
	s, err := site.Fast(0.008)
	if err != nil {
		t.Fatal(err)
	}
	return s.Addr()
}

// tries is the number of runs that a slow machine may need for as many operations as a fast one
// makes in one run. Most mutants are seen at once, so the last runs have the machine to themselves.
const tries = 40

func (m *mutant) mustBeCaught(t *testing.T, at place) {
	grants := 0
	for seed := range uint64(tries) {
		p, out := m.run(t, at, seed, m.open)
		if p == nil {
			return
		}
		first := slices.IndexFunc(p.Of, func(v soak.Violation) bool {
			return slices.Contains(m.seen, v.Invariant) && strings.Contains(v.What, m.saying)
		})
		until := int64(math.MaxInt64)
		if first >= 0 {
			until = begun(out.Events, &p.Of[first])
		}
		for _, e := range out.Events {
			if e.Op == soak.Acquired && e.At <= until {
				grants++
			}
		}
		switch {
		case grants > m.within:
			t.Errorf("%s: not seen within %d grants\n%s", m.name, m.within, text(p))
			return
		case first >= 0:
			t.Logf("%s: after %d grants; %s", m.name, grants, p.Measured())
			return
		}
	}
	t.Errorf("%s: not seen in %d grants; wanted one of %v", m.name, grants, m.seen)
}

// begun returns when the operation began that broke an invariant. A waiter that waits for nothing
// is seen only at the end of its wait. The grants of other workers during that wait depend on the
// speed of the machine and do not count.
func begun(events []soak.Event, v *soak.Violation) int64 {
	at := v.At
	for _, e := range events {
		if e.At == v.At && e.Waited && e.Call < at {
			at = e.Call
		}
	}
	return at
}

// mustPass fails if a store that is not broken breaks an invariant. Many soaks run at once, and a
// busy machine is late with signals (I5) and hand-overs (I6), so a store breaks these only if it
// does so in each of three runs.
func (m *mutant) mustPass(t *testing.T, at place) {
	sound := m.sound
	if sound == nil {
		sound = healthy
	}
	for seed := range uint64(3) {
		p, o := m.run(t, at, seed, sound)
		if p == nil {
			return
		}
		v, err := linear.Check(o.Events, "", 5*time.Minute) // a busy machine needs more than 10 s at times
		if err != nil {
			t.Error(err)
		}
		p.Verdict = v
		late := p.Violations["I5"] + p.Violations["I6"]
		switch {
		case p.Sum() == 0 && v.Illegal == 0 && v.Unknown == 0:
			return
		case seed == 2 || p.Sum() > late || v.Illegal > 0 || v.Unknown > 0:
			t.Errorf("a store that is not broken, under the load of %q\n%s", m.name, text(p))
			return
		}
	}
}

func text(p *soak.Report) string {
	var b strings.Builder
	p.Write(&b)
	return b.String()
}
