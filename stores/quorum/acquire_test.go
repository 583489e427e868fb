package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/quorum"
)

// T-RL1, the first half: a quorum that lost two of five members works, whether they refuse or are
// silent, and does not wait for them.
func TestTwoOfFiveDead(t *testing.T) {
	for name, f := range map[string]fault{"down": down, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
				a, b, r := open(), open(), request("n")
				a.these(f, 1, 4)
				b.these(f, 1, 4)
				d := took(func() { take(t, a, r) })
				_, err := b.Acquire(t.Context(), request("n"))
				wantErr(t, err, driver.ErrHeld, driver.ErrUnavailable, driver.ErrUncertain)
				d += took(func() {
					if _, err := a.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL); err != nil {
						t.Fatal(err)
					}
				})
				if d != 0 {
					t.Errorf("it waited %v for dead members", d)
				}
				wantOutcome(t, a, r, driver.OutcomeReleased)
				take(t, b, request("n"))
			})
		})
	}
}

// T-RL1, the second half: with three of five dead nothing is granted, it is
// never called held, and nothing is left.
func TestThreeOfFiveDead(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		a.these(down, 1, 3, 5)
		_, err := a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrUnavailable, driver.ErrUncertain, driver.ErrHeld)
		wantHolders(t, c, "n")

		a.these(silent, 1, 3, 5)
		d := took(func() { _, err = a.Acquire(t.Context(), request("n")) })
		wantErr(t, err, driver.ErrUncertain, driver.ErrHeld, context.DeadlineExceeded)
		if d > 3*time.Second {
			t.Errorf("it took %v", d)
		}
		wantHolders(t, c, "n")

		// They were carried out, and only the replies are missing.
		a.these(fault{mute: true}, 1, 3, 5)
		_, err = a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrUncertain, driver.ErrHeld)
		a.heal()
		pass(3 * time.Second)
		wantHolders(t, c, "n")
		take(t, a, request("n"))
	})
}

// If one member refuses and the others are silent, the error is not ErrHeld.
func TestSilenceIsNotHeld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		take(t, c[0].now(), request("n"))
		for _, f := range []fault{down, silent, lostCall} {
			a.these(f, 2, 3)
			_, err := a.Acquire(t.Context(), request("n"))
			wantErr(t, err, err, driver.ErrHeld)
			if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
				t.Errorf("neither unavailable nor uncertain: %v", err)
			}
			if !strings.Contains(err.Error(), "member 2 (memory)") {
				t.Errorf("the error does not say which member: %v", err)
			}
		}
	})
}

func TestHeldIsToldOnce(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), reader("n")
		take(t, a, r)
		other := reader("n")
		other.Holder = r.Holder // two readers of one process
		take(t, a, other)
		var held *driver.HeldError
		if _, err := b.Acquire(t.Context(), request("n")); !errors.As(err, &held) {
			t.Fatalf("want a *HeldError, got %v", err)
		}
		if len(held.Holds) != 2 || held.Holds[0].Holder != r.Holder || !held.Holds[1].Shared || held.Waiters != -1 {
			t.Errorf("told was %+v", held)
		}
		if want := time.Now().Add(r.TTL); !held.Until.Equal(want) {
			t.Errorf("until %v, want %v", held.Until, want)
		}
	})
}

// A grant whose reply was lost is kept or found again, with one fence.
func TestLostRepliesAreRepeated(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		for _, l := range a.links {
			l.next("acquire", lostReply)
		}
		g := take(t, a, r)
		for range 3 {
			if again := take(t, a, r); again.Fence != g.Fence || again.TTL != r.TTL {
				t.Errorf("the grant was %+v, a repeat %+v", g, again)
			}
		}
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2, 3)
	})
}

// A member that comes late, with a greater fence, does not change that of the
// hold.
func TestRepeatKeepsTheFence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		c[2].clock.ahead.Store(int64(time.Hour))
		a.links[2].always(slow(5 * time.Millisecond))
		g := take(t, a, r)
		pass(time.Second)
		a.heal()
		a.links[0].always(slow(5 * time.Millisecond))
		if again := take(t, a, r); again.Fence != g.Fence {
			t.Errorf("fence %d, in a repeat %d", g.Fence, again.Fence)
		}
	})
}

// If the hold was lost in between, a repeated request is a new grant, even if this process does not
// know of the loss yet.
func TestRepeatAfterLossHasANewFence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		g := take(t, a, r)
		pass(time.Millisecond)
		c[0].restart()
		c[1].restart()
		between := request("n")
		other := take(t, b, between)
		wantOutcome(t, b, between, driver.OutcomeReleased)
		safety.Rises(t, other.Fence, g.Fence)
		safety.Rises(t, take(t, a, r).Fence, other.Fence)
	})
}

func TestCancelledAcquiresLeaveNothing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		for i, l := range a.links {
			l.always(slow(time.Duration(i) * 3 * time.Millisecond))
		}
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
			r := request("n")
			_, err := a.Acquire(ctx, r)
			cancel()
			if err == nil {
				wantOutcome(t, a, r, driver.OutcomeReleased)
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("cancelled after %d: %v", i, err)
			}
		}
		pass(3 * time.Second)
		wantHolders(t, c, "n")
	})
}

// T-RL3: every caller that reaches a quorum gets through, even when no two callers see the same
// members.
func TestAsymmetricPartition(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		left, right, cut := open(), open(), open()
		left.these(silent, 4, 5)
		right.these(down, 1, 2)
		cut.these(silent, 1, 2, 3)
		for range 10 {
			a, b := request("n"), request("n")
			errs := together(t, 2, func(ctx context.Context, i int) error {
				_, err := []*client{left, right}[i].Acquire(ctx, []driver.Request{a, b}[i])
				return err
			})
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("want one to get through: %v", errs)
			}
			_, err := cut.Acquire(t.Context(), request("n"))
			wantErr(t, err, driver.ErrUncertain, driver.ErrHeld)
			left.Release(t.Context(), "n", a.Token.Text(), 0)
			right.Release(t.Context(), "n", b.Token.Text(), 0)
			pass(time.Second)
		}
	})
}

// Split votes: each caller gets one member before the other callers' requests arrive there. One try
// per caller is enough for one of them to succeed, and the tries that lose leave nothing.
func TestSplitVotes(t *testing.T) {
	for _, n := range []int{3, 5} {
		bubble(t, n, func(t *testing.T, c cluster, open func() *client) {
			var clients []*client
			for i := range n {
				cl := open()
				for j, l := range cl.links {
					l.always(slow(time.Duration((j-i+n)%n+1) * time.Millisecond))
				}
				clients = append(clients, cl)
			}
			for round := range 5 {
				rs := make([]driver.Request, n)
				errs := together(t, n, func(ctx context.Context, i int) error {
					rs[i] = request("n")
					_, err := clients[i].Acquire(ctx, rs[i])
					return err
				})
				winner := -1
				for i, err := range errs {
					switch {
					case err == nil && winner < 0:
						winner = i
					case err == nil:
						safety.TwoHold(t, "round %d: both %d and %d have it", round, winner, i)
						t.FailNow()
					case !errors.Is(err, driver.ErrHeld):
						t.Fatal(err)
					}
				}
				if winner < 0 {
					t.Fatalf("round %d: nobody got through: %v", round, errs)
				}
				pass(time.Second)
				wantOutcome(t, clients[winner], rs[winner], driver.OutcomeReleased)
				pass(time.Second)
				wantHolders(t, c, "n")
			}
		})
	}
}

func wantCooling(t *testing.T, c cluster, want int) {
	t.Helper()
	cooling := 0
	for _, srv := range c {
		if s, _ := srv.now().Inspect(t.Context(), "n"); len(s.Holds) == 1 && s.Holds[0].Cooling {
			cooling++
		}
	}
	if cooling != want {
		t.Fatalf("%d members cool down, want %d", cooling, want)
	}
}

// A hold is brought to all members, also to one that refused at first.
func TestTheGrantWantsAllMembers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		passing := request("n")
		take(t, c[2].now(), passing)
		a.links[0].always(slow(5 * time.Millisecond))
		take(t, a, r)
		c[2].now().Release(t.Context(), "n", passing.Token.Text(), 0)
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2, 3)
		wantOutcome(t, a, r, driver.OutcomeReleased)
		pass(time.Second)
		wantHolders(t, c, "n")
	})
}

// Close ends all requests in bounded time, even if a member is silent. The end of the bubble shows
// that no goroutine is left.
func TestCloseWithASilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		a := c.client(t, quorum.Majority)
		a.these(silent, 3)
		for range 20 {
			r := request("n")
			take(t, a, r)
			wantOutcome(t, a, r, driver.OutcomeReleased)
		}
		take(t, a, request("n"))
		d := took(func() {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		if d > driver.MaxSilence {
			t.Errorf("Close took %v", d)
		}
		_, err := a.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrClosed)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A member that answers nothing is left out after a while: it costs no
// goroutines, however long the leases are. It comes back by itself.
func TestADeadMemberIsLeftOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a := open()
		a.these(silent, 3)
		for range 400 {
			r := request("n")
			r.TTL = time.Hour
			take(t, a, r)
			wantOutcome(t, a, r, driver.OutcomeReleased)
			pass(time.Millisecond)
		}
		pass(time.Second)
		asked := a.links[2].count("acquire")
		r := request("n")
		r.TTL = time.Hour
		take(t, a, r)
		pass(time.Millisecond)
		if n := a.links[2].count("acquire"); n != asked {
			t.Errorf("it was asked again after %d times", asked)
		}
		a.heal()
		pass(10 * time.Second)
		wantOutcome(t, a, r, driver.OutcomeReleased)
		take(t, a, request("m"))
		pass(time.Second)
		wantHolders(t, c, "m", 1, 2, 3)
	})
}

// A cancelled try that may have left something at a member is uncertain: another process may stand in the
// queue of that member, and be refused because of it.
func TestCancelledTry(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		for _, left := range [][]int{nil, {1}, {3}, {1, 2}, {2, 3}, {3, 4, 5}} {
			a, r := open(), request("n")
			a.these(slow(5*time.Millisecond), 1, 2, 3, 4, 5)
			a.these(fault{mute: true}, left...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
			_, err := a.Acquire(ctx, r)
			cancel()
			wantErr(t, err, context.DeadlineExceeded)
			if errors.Is(err, driver.ErrUncertain) != (left != nil) {
				t.Errorf("left at %v: %v", left, err)
			}
			a.heal()
			pass(3 * time.Second)
			wantHolders(t, c, "n")
		}
	})
}
