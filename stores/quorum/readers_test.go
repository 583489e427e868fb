package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/quorum"
)

// fewMillis lets every request take up to 3 ms, in an order that the seed decides.
func fewMillis(cl *client, seed uint64) {
	for i, l := range cl.links {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		l.set(func(string) fault { // called with a mutex held
			return slow(time.Duration(1000+random.IntN(2000)) * time.Microsecond)
		})
	}
}

// While all members answer, readers that hold together have one fence, whether they come at once or
// one after the other.
func TestReadersHaveOneFence(t *testing.T) {
	for _, rule := range []quorum.Rule{quorum.Majority, quorum.All} {
		t.Run(rule.String(), func(t *testing.T) {
			bubbleOf(t, rule, 5, func(t *testing.T, c cluster, open func() *client) {
				clients := []*client{open(), open(), open()}
				for i, cl := range clients {
					fewMillis(cl, uint64(i))
				}
				for i := range 200 {
					name := fmt.Sprint("name ", i)
					var fences [2]uint64
					together(t, 2, func(ctx context.Context, i int) error {
						g, err := clients[i].Acquire(ctx, reader(name))
						fences[i] = g.Fence
						return err
					})
					later := take(t, clients[2], reader(name)).Fence
					if fences[0] != fences[1] || later != fences[0] {
						t.Errorf("readers at once have fences %d and %d, one that came later has %d", fences[0], fences[1], later)
					}
				}
				pass(time.Second)
			})
		})
	}
}

// A member comes back after a reader was granted, and mints a new fence for this reader. A resource
// may have seen another caller's writes with a fence in between, so the next reader gets the
// greater fence.
func TestReaderAfterAMemberCameBack(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b := open(), open()
		first := reader("n")
		g := take(t, a, first)
		pass(time.Second)
		c[0].restart()
		if _, err := a.Extend(t.Context(), first.Name, first.Token.Text(), first.TTL); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2, 3)
		safety.Rises(t, take(t, b, reader("n")).Fence, g.Fence)
	})
}

// A process asks for an exclusive hold with the token of a shared one that another process took. The
// members confirm the shared hold, so the grant says that it is shared.
func TestExclusiveRepeatOfASharedHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, first := open(), open(), reader("n")
		take(t, a, first)
		take(t, a, reader("n"))
		first.Shared = false
		if g := take(t, b, first); !g.Shared {
			safety.TwoHold(t, "two readers have the name, and one of them is granted an exclusive hold")
		}
	})
}

func TestSharedFenceIsPromisedAsFarAsItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rule, want := range map[quorum.Rule]driver.Promise{quorum.Majority: driver.PromisePartly, quorum.All: driver.PromiseYes} {
			with, without := newCluster(3).client(t, rule), newCluster(3).client(t, rule, quorum.NoFences())
			if got := with.Guarantees().SharedFence; got != want {
				t.Errorf("%v: one fence for readers is promised: %v, want %v", rule, got, want)
			}
			if got := without.Guarantees().SharedFence; got != driver.PromiseNo {
				t.Errorf("%v without fences: one fence for readers is promised: %v", rule, got)
			}
			with.Close()
			without.Close()
		}
	})
}
