package facetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/quorum"
)

// modelKind is a kind of store: the way to each of its servers, and what makes one store of them.
type modelKind struct {
	name string
	ways []func(*modelLink) driver.Store
	join func(stores []driver.Store) (driver.Store, error) // nil if there is one server
}

func modelKinds() []modelKind {
	kinds := []modelKind{
		{"memory", ways(1, toMemory), nil}, {"polling", ways(1, toPolling), nil}, {"every ability", ways(1, toAble), nil},
		{"majority of 3", ways(3, toAble), join(quorum.Majority)}, {"majority of 5", ways(5, toAble), join(quorum.Majority)},
		{"majority of 1", ways(1, toAble), join(quorum.Majority)}, {"all of 2", ways(2, toAble), join(quorum.All)},
		{"able and 2 registers", append(ways(1, toAble), ways(2, toRegister(register.Clock{}))...), join(quorum.Majority)},
		{"all, one observed", append(ways(1, toAble), toRegister(register.Clock{Observed: true})), join(quorum.All)},
	}
	for _, c := range []struct {
		name  string
		clock register.Clock
	}{
		{"exact", register.Clock{}},
		{"grain", register.Clock{Grain: 100 * time.Millisecond}},
		{"skew", register.Clock{Grain: 10 * time.Millisecond, Skew: 300 * time.Millisecond}},
		{"observed", register.Clock{Observed: true}},
	} {
		kinds = append(kinds, modelKind{"register, " + c.name, ways(1, toRegister(c.clock)), nil})
	}
	return kinds
}

func ways(n int, way func(*modelLink) driver.Store) (all []func(*modelLink) driver.Store) {
	for range n {
		all = append(all, way)
	}
	return all
}

func join(rule quorum.Rule) func([]driver.Store) (driver.Store, error) {
	return func(stores []driver.Store) (driver.Store, error) { return quorum.New(rule, stores) }
}

const (
	modelProcesses = 2
	modelCallers   = 2 // of each process
	modelPhases    = 4
	modelTime      = 5 * time.Second // of a phase
	modelLate      = 400 * time.Millisecond
	modelKeep      = 2 * time.Second // of a cool-down
	inMemory       = "memory"        // Guarantees.Store
)

var modelTTLs = []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second}

// TestModel lets callers of two processes take one name by the methods of package driver, over each
// kind of store that needs no server. Requests and replies are lost, late, refused and never
// answered, at each member of a quorum for itself, and the clocks of members are hours apart.
// Callers wait, extend, convert, replace and break holds, repeat their own tokens and those of the
// other process with another TTL and mode, leave cool-downs, and die. The rules are those of the
// type judge.
//
// A seed fixes what each caller does and which faults it meets. The goroutines run in any order.
func TestModel(t *testing.T) {
	first, seeds := uint64(0), uint64(6)
	if server.IsThorough() {
		first, seeds = rand.Uint64()/2, 300 // a failure prints its seed
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-22s %9s %9s %9s %10s", "", "calls", "grants", "faults", "violations")
	total := map[string]int{}
	kinds := modelKinds()
	sums := make([]map[string]int, len(kinds))
	t.Run("kinds", func(t *testing.T) {
		for i, kind := range kinds {
			sums[i] = map[string]int{}
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				for seed := first; seed < first+seeds && !t.Failed(); seed++ {
					synctest.Test(t, func(t *testing.T) { modelRun(t, kind, seed, sums[i]) })
				}
			})
		}
	})
	for i, sum := range sums {
		fmt.Fprintf(&table, "\n%-22s %9d %9d %9d %10d", kinds[i].name, sum["calls"], sum["grants"], sum["faults"], sum["violations"])
		for what, n := range sum {
			total[what] += n
		}
	}
	t.Log(table.String())
	t.Log(total)
	for _, what := range []string{"grants", "refused", "failures", "hand-overs", "repeats", "promotions", "demotions", "losses", "breaks", "replacements", "cool-downs"} {
		if total[what] == 0 {
			t.Errorf("the model made no %s", what)
		}
	}
}

// modelRun makes the calls of one seed, in phases. At the end of each phase there are no faults, and
// the name must be free.
func modelRun(t *testing.T, kind modelKind, seed uint64, sum map[string]int) {
	j := &judge{t: t, what: fmt.Sprintf("%s, seed %d", kind.name, seed), isComposite: kind.join != nil, counts: sum, tokens: map[string]*tokenState{}, job: "job-0"}
	var servers []*modelServer
	for i := range kind.ways {
		servers = append(servers, newModelServer(rand.New(rand.NewPCG(seed, uint64(i))), len(kind.ways) > 1))
	}
	var callers []*caller
	var links []*modelLink
	for p := range modelProcesses {
		var members []driver.Store
		for i, way := range kind.ways {
			l := servers[i].link(p, rand.New(rand.NewPCG(seed, uint64(100+10*p+i))))
			links, members = append(links, l), append(members, way(l))
		}
		store := members[0]
		if kind.join != nil {
			var err error
			if store, err = kind.join(members); err != nil {
				t.Fatal(err)
			}
		}
		defer store.Close()
		for n := range modelCallers {
			c := &caller{Store: store, g: store.Guarantees(), j: j, who: modelCallers*p + n, mortal: seed%2 == 1}
			c.random = rand.New(rand.NewPCG(seed, uint64(1000+c.who)))
			callers = append(callers, c)
		}
	}
	for range modelPhases {
		modelPhase(t, callers, links)
		j.checkFree(callers[0])
	}
	for _, l := range links {
		sum["faults"] += l.strikes
	}
}

// modelPhase lets the callers work under faults, and then ends the faults.
func modelPhase(t *testing.T, callers []*caller, links []*modelLink) {
	var working, weather sync.WaitGroup
	for _, l := range links {
		l.set(false)
		weather.Go(l.change)
	}
	for _, c := range callers {
		working.Go(func() {
			for began := time.Now(); time.Since(began) < modelTime && !t.Failed(); {
				c.one()
			}
		})
	}
	working.Wait()
	for _, l := range links {
		l.set(true)
	}
	weather.Wait()
}

// caller takes one name over and over.
type caller struct {
	driver.Store
	g      driver.Guarantees
	j      *judge
	who    int
	mortal bool // it may die, and leave its hold to the lease
	random *rand.Rand
	unsure bool // requests of this token may still be on their way
}

func (c *caller) chance(percent int) bool { return c.random.IntN(100) < percent }

func (c *caller) nap(most time.Duration) { <-time.After(time.Duration(c.random.Int64N(int64(most)))) }

func (c *caller) ttl() time.Duration { return modelTTLs[c.random.IntN(len(modelTTLs))] }

// one takes the name, works, and gives the name back.
func (c *caller) one() {
	r := driver.Request{Name: "n", TTL: c.ttl(), Shared: c.chance(40), Holder: driver.Holder{Host: "here", PID: c.who}}
	if isJob := c.chance(30) && !c.g.RefusedIsSpent; isJob {
		r.Token = driver.TokenOf(c.j.jobToken())
	} else {
		r.Token = driver.TokenOf(c.j.newToken())
		if w, ok := driver.As[driver.Waiter](c.Store); ok && c.chance(40) && !c.wait(w, &r) {
			return
		}
	}
	if c.try(&r) && c.work(&r) {
		return
	}
	c.giveUp(r.Token.Text())
	c.nap(20 * time.Millisecond)
}

// wait waits in the queue. If it returns false, the token is spent.
func (c *caller) wait(w driver.Waiter, r *driver.Request) bool {
	ctx, cancel := context.WithTimeout(c.j.t.Context(), time.Duration(1+c.random.IntN(3000))*time.Millisecond)
	defer cancel()
	tk := c.j.send(r.Token.Text())
	g, err := w.Wait(ctx, *r, true)
	c.j.log(c.who, "wait", r, g, err)
	if err != nil || g.TTL == 0 {
		c.j.over(r.Token.Text())
		return false
	}
	c.j.count("hand-overs")
	if g.From != 0 {
		c.j.granted(tk, r, g)
	}
	return true
}

// try asks for the name with one token, again after an uncertain outcome, and sometimes after a
// refusal.
func (c *caller) try(r *driver.Request) bool {
	for range 3 {
		tk := c.j.send(r.Token.Text())
		g, err := c.Acquire(c.j.t.Context(), *r)
		c.j.log(c.who, "acquire", r, g, err)
		switch {
		case err == nil:
			return c.j.granted(tk, r, g)
		case errors.Is(err, driver.ErrHeld):
			c.j.count("refused")
			c.j.denied(tk, err)
			if c.g.RefusedIsSpent || c.chance(60) {
				return false
			}
		case isGone(err), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrSpent):
			return false
		case errors.Is(err, driver.ErrUncertain), errors.Is(err, driver.ErrUnavailable), errors.Is(err, errReset):
			c.j.count("failures")
			c.unsure = true
		default:
			c.j.blame("Acquire: %v", err)
		}
		c.nap(100 * time.Millisecond)
	}
	return false
}

// work uses the hold for a while. It returns true if the caller has died.
func (c *caller) work(r *driver.Request) (dead bool) {
	for c.chance(70) && c.j.isHeld(r.Token.Text()) {
		most := 400 * time.Millisecond
		if c.chance(10) {
			most = 5 * time.Second
		}
		c.nap(most)
		ok := true
		switch n := c.random.IntN(100); {
		case n < 8:
			c.breakAll()
		case n < 25:
			ok = c.convert(r)
		case n < 35:
			ok = c.replace(r)
		case n < 60:
			again := *r
			again.TTL, again.Shared = c.ttl(), c.chance(50)
			c.j.count("repeats")
			ok = c.try(&again)
		default:
			ok = c.extend(r)
		}
		if !ok {
			return false
		}
	}
	if dead = c.mortal && c.chance(10) && c.j.isHeld(r.Token.Text()); dead {
		c.j.died()
	}
	return dead
}

func (c *caller) extend(r *driver.Request) bool {
	tk := c.j.send(r.Token.Text())
	g, err := c.Extend(c.j.t.Context(), r.Name, r.Token.Text(), c.ttl())
	c.j.log(c.who, "extend", r, g, err)
	if err == nil {
		c.j.extended(tk, g)
	} else if isGone(err) {
		c.j.count("losses")
		c.j.denied(tk, err)
	}
	return !isGone(err)
}

// convert changes the mode of the hold. If the mode is not known afterwards, it returns false.
func (c *caller) convert(r *driver.Request) bool {
	v, ok := driver.As[driver.Converter](c.Store)
	if !ok {
		return true
	}
	to := *r
	to.TTL = modelTTLs[0]
	tk := c.j.convert(&to)
	g, err := v.Convert(c.j.t.Context(), to)
	c.j.log(c.who, "convert", &to, g, err)
	return c.j.converted(tk, &to, g, err)
}

// replace gives the hold to a new token, as Adopt does. If the outcome is not known, both tokens are
// given up.
func (c *caller) replace(r *driver.Request) bool {
	if c.j.isJob(r.Token.Text()) {
		return true // another caller may release it meanwhile
	}
	if c.j.isComposite {
		<-time.After(modelLate) // a request to a member may still be on its way
	}
	to := *r
	to.Replaces, to.Token = r.Token, driver.TokenOf(c.j.newToken())
	tk, old := c.j.replace(&to)
	g, err := c.Acquire(c.j.t.Context(), to)
	c.j.log(c.who, "replace "+r.Token.Text()+" by", &to, g, err)
	r.Token = to.Token
	ok := c.j.replaced(tk, old, &to, g, err)
	if c.j.isComposite && !ok {
		<-time.After(modelLate) // members in memory do not know which tokens were given up
	}
	if c.unsure = c.unsure || !ok; c.unsure {
		c.giveUp(to.Replaces.Text())
		c.unsure = !ok
	}
	return ok
}

// breakAll ends all holds by force.
func (c *caller) breakAll() {
	admin, ok := driver.As[driver.Admin](c.Store)
	if !ok {
		return
	}
	state, err := admin.Inspect(c.j.t.Context(), "n")
	if err != nil || state.Fence == 0 {
		return
	}
	c.j.breaks(state.Fence)
	fence, err := admin.Break(c.j.t.Context(), "n", state.Fence)
	c.j.log(c.who, "break", &driver.Request{}, driver.Grant{Fence: fence}, err)
	if err == nil {
		c.j.count("breaks")
		c.j.minted(fence)
	}
}

// giveUp releases the token, until that is certain. It asks twice, because the first release may
// end a hold, and an earlier request may still be on its way. A memory store does not know what is
// spent, so the second release comes after all such requests.
func (c *caller) giveUp(token string) {
	fence, keep := c.j.over(token), time.Duration(0)
	if c.chance(5) {
		keep = modelKeep
	}
	for sure := 0; sure < 2; {
		sent := time.Now()
		out, err := c.Release(c.j.t.Context(), "n", token, keep)
		if err == nil && out == driver.OutcomeReleased && keep > 0 {
			c.j.cools(fence, sent.Add(keep))
		}
		c.j.log(c.who, "release", &driver.Request{Token: driver.TokenOf(token)}, driver.Grant{}, errors.Join(err, errors.New(out.String())))
		if err == nil {
			if sure++; sure == 1 && c.unsure && c.g.Store == inMemory {
				<-time.After(modelLate)
			}
		} else {
			c.nap(100 * time.Millisecond)
		}
	}
	c.unsure = false
}

func isGone(err error) bool {
	return errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrExpired)
}
