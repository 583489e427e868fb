package facetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

var pairRounds = flag.Int("pairs", 10, "rounds of TestPairs for each kind of store")

// pairKind is a kind of store.
type pairKind struct {
	server int
	bound  bool // locks are bound to the connection, unless they are detached
}

const (
	bareServer = iota // a server without Waiter: callers poll
	ableServer        // a server with every ability
	inProcess         // a store in the memory of the process
)

var pairKinds = map[string]pairKind{
	"plain":           {server: bareServer},
	"able":            {server: ableServer},
	"able and bound":  {server: ableServer, bound: true},
	"in this process": {server: inProcess},
}

var pairNames = []string{"a", "b", "c"}

const (
	callers   = 8
	callsEach = 6 // in each phase
)

// TestPairs makes random calls with every feature while every fault happens. It checks these rules:
//
//   - Two callers never work under one lock. While a lock is not over in its process, the store has
//     it, in the same mode. Fences grow.
//   - If another caller gets a lock before its release, the release returns an error. Without a
//     fault, no release and no call fails.
//   - A name stays taken for the time of HoldAtLeast and CoolDown, and a lock ends with HoldAtMost.
//   - Calls, releases and Close end in time. At the end nobody waits, and the store keeps nothing.
//   - The events of each lock come in order, and each story has an end.
//
// Run it with -v to see how often each feature has met each fault, and with -args -pairs=1000 for
// longer. Goroutines run in any order, so a seed would not repeat a run: a failure prints the
// requests that came before it. Processes that are killed, CheckTx and LockTx are in the soak. The
// row of the election makes the calls of package election, which the tests of this package may not
// import.
func TestPairs(t *testing.T) {
	t.Parallel()
	var table pairTable
	for name, kind := range pairKinds {
		t.Run(name, func(t *testing.T) {
			for i := 0; i < *pairRounds && !t.Failed(); i++ {
				synctest.Test(t, func(t *testing.T) { newPairModel(t, kind, &table).run() })
			}
		})
	}
	t.Log(table.String())
	table.check(t)
}

func newPairModel(t *testing.T, kind pairKind, table *pairTable) *pairModel {
	clock := &stepClock{base: time.Now()}
	x := &pairModel{
		report: t.Errorf, kind: kind, clock: clock, server: memstore.New(memstore.WithClock(clock)), table: table, late: 8000,
		random: rand.New(rand.NewPCG(rand.Uint64(), 0)), uses: map[int]*use{}, tokens: map[string]*use{}, holders: map[string][]*entry{},
		writer: map[string]uint64{}, highest: map[string]uint64{}, taken: map[string]driver.Instant{},
		last: map[string]*padlock.Lock{}, history: map[string][]step{},
	}
	for range 2 {
		x.procs = append(x.procs, x.open())
	}
	return x
}

// open starts a process.
func (x *pairModel) open() *process {
	p := &process{}
	opts := []padlock.LockerOption{padlock.WithClock(x.clock)}
	if x.n(3) > 0 {
		p.features |= useObserver
		opts = append(opts, padlock.Observe(x))
	}
	switch x.kind.server {
	case bareServer:
		c := x.connect()
		p.Locker = padlock.New(bare{c}, opts...)
	case ableServer:
		p.Locker = padlock.New(ableWire{x.connect()}, opts...)
	default:
		p.Locker = padlock.New(x.server.Open(), opts...)
	}
	return p
}

func (x *pairModel) process() *process {
	i := x.n(len(x.procs))
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.procs[i]
}

// run goes through phases with one or more faults, and then checks what is left.
func (x *pairModel) run() {
	x.phase(noFault)
	for _, f := range rand.Perm(int(allFaults)) {
		x.phase(fault(f))
	}
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	if x.leavesSome {
		<-time.After(padlock.DefaultTTL)
	}
	began := time.Now()
	x.call(1)
	if took := time.Since(began); took > 20*time.Second {
		x.report("callers have waited %v after the end of all trouble", took)
	}
	<-time.After(4 * time.Second) // for the clean-ups
	x.checkLeft()
	for _, p := range x.procs {
		x.close(p, context.Background())
	}
	<-time.After(time.Minute)
	for _, p := range x.procs {
		x.checkStats(p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, u := range x.tokens {
		x.checkEnded(u)
	}
}

// phase lets callers make their calls while f happens, and sometimes other faults too.
func (x *pairModel) phase(f fault) {
	var weather [allFaults]int
	for i := range weather {
		if f != noFault && (fault(i) == f || x.n(6) == 0) {
			weather[i] = 4 + x.n(12)
		}
	}
	x.mu.Lock()
	x.weather = weather
	x.weather[silence], x.weather[closing], x.weather[clockStep], x.weather[shortWaits] = 0, 0, 0, 0
	x.mu.Unlock()
	var trouble sync.WaitGroup
	for i, weight := range weather {
		if weight > 0 {
			trouble.Go(func() { x.cause(fault(i)) })
		}
	}
	x.call(callsEach)
	trouble.Wait()
}

func (x *pairModel) call(times int) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range times {
				x.one()
			}
		})
	}
	all.Wait()
}

// cause makes a fault happen that is not the fault of a single request.
func (x *pairModel) cause(f fault) {
	for range 3 {
		sleep(context.Background(), x.ms(40))
		switch f {
		case silence:
			d := x.ms(12000)
			x.mu.Lock()
			x.silent = time.Now().Add(d)
			x.mu.Unlock()
			sleep(context.Background(), d)
		case closing:
			x.restart()
		case clockStep:
			x.meetAll(clockStep, func(*use) bool { return true })
			d := x.ms(2000)
			x.mu.Lock()
			x.strikes++
			x.unsteady++ // so no call counts as calm that begins now
			x.clock.step(d)
			x.mu.Unlock()
			<-time.After(2 * longestNap)
			x.mu.Lock()
			x.unsteady--
			x.mu.Unlock()
		case shortWaits:
			x.waitShortly()
		}
	}
}

// waitShortly makes many callers wait for a name that somebody waits for.
func (x *pairModel) waitShortly() {
	name, p := pairNames[x.n(len(pairNames))], x.process()
	var opts []padlock.Option
	if x.n(3) == 0 {
		opts = append(opts, padlock.Slots(2))
	} else if x.n(2) == 0 {
		opts = append(opts, padlock.Shared())
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 6 {
				u, ctx := x.begin(p, 0, name)
				k, err := p.Acquire(ctx, name, append(opts, padlock.Wait(x.ms(5)))...)
				x.checkTold(u, err)
				if err == nil {
					k.Release()
				} else {
					x.meetAll(shortWaits, func(other *use) bool { return other.features&^useObserver != 0 && other.names[0] == name })
				}
				x.end(u)
			}
		})
	}
	all.Wait()
}

// restart closes a Locker that is at work, and opens another.
func (x *pairModel) restart() {
	fresh, i := x.open(), x.n(len(x.procs))
	x.mu.Lock()
	old := x.procs[i]
	x.procs[i] = fresh
	x.mu.Unlock()
	ctx := context.Background()
	if x.n(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.ms(2000))
		defer cancel()
	}
	x.close(old, ctx)
}

func (x *pairModel) close(p *process, ctx context.Context) {
	mine := func(u *use) bool { return u.p == p }
	x.mu.Lock()
	p.closed = true
	x.mu.Unlock()
	x.meetAll(closing, mine)
	most, began := 2*time.Minute, time.Now()
	if end, ok := ctx.Deadline(); ok {
		most = time.Until(end) + 2*time.Second
	}
	err := p.Close(ctx)
	x.mu.Lock()
	for _, u := range x.uses {
		x.leavesSome = x.leavesSome || mine(u) && u.features&useExport != 0
	}
	x.leavesSome = x.leavesSome || err != nil
	x.mu.Unlock()
	if took := time.Since(began); took > most {
		x.report("Close has returned after %v, the limit was %v: %v", took, most, err)
	}
}

// checkLeft checks that the store keeps nothing, because nobody holds anything.
func (x *pairModel) checkLeft() {
	states, err := x.server.List(context.Background(), "")
	if err != nil {
		x.report("%v", err)
	}
	for _, s := range states {
		for _, h := range s.Holds {
			if !h.Cooling {
				x.report("%q is held, and nobody has it: %+v%s", s.Name, s, x.past(s.Name))
			}
		}
		if s.Waiters > 0 {
			x.report("%q has a waiter, and nobody waits: %+v", s.Name, s)
		}
	}
}

func (x *pairModel) checkStats(p *process) {
	u, ctx := x.begin(p, 0, "a")
	defer x.end(u)
	if st := p.Stats(); st.Held != 0 || st.Waiting != 0 || st.CleanUps != 0 {
		x.report("after Close: %+v", st)
	}
	if _, err := p.Acquire(ctx, "a"); !errors.Is(err, padlock.ErrClosed) {
		x.report("after Close: %v", err)
	}
}

func (p *pairTable) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-16s", "")
	for _, name := range faultNames {
		fmt.Fprintf(&b, " %13s", name)
	}
	for i, row := range p {
		fmt.Fprintf(&b, "\n%-16s", featureNames[i])
		for _, n := range row {
			fmt.Fprintf(&b, " %13d", n)
		}
	}
	return b.String()
}

func (p *pairTable) check(t *testing.T) {
	for i, row := range p {
		for j, n := range row {
			if n == 0 {
				t.Errorf("%s and %s have never met", featureNames[i], faultNames[j])
			}
		}
	}
}
