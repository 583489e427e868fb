package quorum_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/quorum"
)

// If all members grant, a quorum has the fence of the grant already, and Acquire does not wait
// until a fence is written.
func TestAFreeLockTakesOneRound(t *testing.T) {
	for _, n := range []int{3, 5} {
		bubble(t, n, func(t *testing.T, c cluster, open func() *client) {
			a := open()
			for i, l := range a.links {
				c[i].clock.ahead.Store(int64(time.Duration(i*7%n) * time.Hour))
				l.set(func(op string) fault {
					if op == "raise" {
						return slow(200 * time.Millisecond)
					}
					return slow(time.Millisecond)
				})
			}
			r := request("n")
			var g driver.Grant
			if d := took(func() { g = take(t, a, r) }); d != time.Millisecond {
				t.Errorf("of %d members: Acquire took %v", n, d)
			}
			if has := c.atLeast("n", g.Fence); has != n/2+1 {
				t.Errorf("of %d members, %d have the fence when Acquire returns", n, has)
			}
			pass(time.Second)
			if has := c.atLeast("n", g.Fence); has != n {
				t.Errorf("of %d members, %d get the fence", n, has)
			}
		})
	}
}

// A writer waits for the third answer only if the member was fast the last time.
func TestAWriterDoesNotWaitForASlowMember(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		c[0].clock.ahead.Store(int64(time.Hour))
		for i, d := range []time.Duration{10, 10, 60} {
			a.links[i].always(slow(d * time.Millisecond))
		}
		for _, want := range []time.Duration{30, 20, 20} { // the write takes a round, and waiting takes one at most
			r := request("n")
			if d := took(func() { take(t, a, r) }); d != want*time.Millisecond {
				t.Errorf("Acquire took %v, want %d ms", d, want)
			}
			pass(time.Second)
			wantOutcome(t, a, r, driver.OutcomeReleased)
			pass(time.Second)
		}
	})
}

// writers lets clients take one name in turn while members are late or down, restart empty, and
// have clocks that are hours apart. Each fence must be greater than all before. A member restarts
// empty only if so many others have the last fence that every quorum contains one of them; no
// choice of the fence could help otherwise.
func writers(t *testing.T, seed uint64, rule quorum.Rule, n int) (grants, restarts int) {
	rnd, c := rand.New(rand.NewPCG(seed, uint64(n))), newCluster(n)
	for _, srv := range c {
		srv.clock.ahead.Store(rnd.Int64N(int64(3 * time.Hour)))
	}
	need := n/2 + 1
	if rule == quorum.All {
		need = n
	}
	clients := []*client{c.client(t, rule), c.client(t, rule)}
	last := uint64(0)
	for range 60 {
		cl, dead := clients[rnd.IntN(len(clients))], rnd.IntN(n-need+1)
		for i, m := range rnd.Perm(n) {
			answer := slow(time.Duration(rnd.IntN(3)) * time.Millisecond)
			if rnd.IntN(4) == 0 {
				answer = slow(20 * time.Millisecond) // after the others have decided
			}
			if i < dead {
				answer = down
			}
			cl.links[m].always(answer)
		}
		r := request("n")
		g := take(t, cl, r)
		safety.Rises(t, g.Fence, last, seed, rule, n)
		if has := c.atLeast("n", g.Fence); has < need {
			t.Errorf("seed %d, %v of %d: only %d members have the fence of the grant", seed, rule, n, has)
		}
		last, grants = g.Fence, grants+1
		if rnd.IntN(2) == 0 {
			pass(100 * time.Millisecond) // for the members that get the fence later
		}
		m := rnd.IntN(n)
		mayForget := c.without(m).atLeast("n", last) > n-need
		cl.heal()
		wantOutcome(t, cl, r, driver.OutcomeReleased)
		pass(time.Second)
		if mayForget && rnd.IntN(3) == 0 {
			c[m].restart()
			restarts++
		}
	}
	for _, cl := range clients {
		cl.Close()
	}
	return grants, restarts
}

// without returns the cluster without one member.
func (c cluster) without(m int) cluster { return slices.Concat(c[:m], c[m+1:]) }

func TestFencesOfWriters(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	grants, restarts := 0, 0
	for seed := range seeds {
		for _, n := range []int{2, 3, 4, 5} {
			for _, rule := range []quorum.Rule{quorum.Majority, quorum.All} {
				synctest.Test(t, func(t *testing.T) {
					g, r := writers(t, seed, rule, n)
					grants, restarts = grants+g, restarts+r
				})
			}
		}
	}
	t.Logf("%d grants, %d restarts", grants, restarts)
	if restarts == 0 {
		t.Error("no member restarted empty")
	}
}
