package quorum_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/stores/quorum"
)

func extend(t *testing.T, s driver.Store, r driver.Request) error {
	_, err := s.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL)
	return err
}

// When denials leave no quorum the hold is lost at once, and it is not taken
// again. Silence alone loses nothing.
func TestLostAtOnce(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		a.these(silent, 1, 2, 3, 4)
		err := extend(t, a, r)
		wantErr(t, err, driver.ErrUncertain, driver.ErrLost, driver.ErrExpired)
		a.heal()
		if err := extend(t, a, r); err != nil {
			t.Fatal(err)
		}
		pass(time.Millisecond)
		c[2].restart()
		c[3].restart()
		c[4].restart()
		a.these(silent, 1)
		d := took(func() { err = extend(t, a, r) })
		wantErr(t, err, driver.ErrLost, driver.ErrUncertain)
		if d != 0 {
			t.Errorf("the loss was reported after %v", d)
		}
		pass(time.Second)
		wantHolders(t, c, "n", 1, 2)
	})
}

func TestExpiredOrLost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		take(t, a, r)
		pass(r.TTL)
		wantErr(t, extend(t, a, r), driver.ErrExpired, driver.ErrLost)

		r = request("n")
		take(t, a, r)
		pass(r.TTL)
		other := request("n")
		take(t, b, other)
		pass(time.Millisecond)
		wantOutcome(t, b, other, driver.OutcomeReleased)
		wantErr(t, extend(t, a, r), driver.ErrLost, driver.ErrExpired)

		r = request("m")
		take(t, a, r)
		pass(time.Millisecond)
		c[0].clock.ahead.Add(int64(time.Minute))
		c[1].restart() // nobody knows whether another caller held the name in between
		wantErr(t, extend(t, a, r), driver.ErrLost, driver.ErrExpired)
	})
}

// T-RL2: a member that restarted empty gets the hold back with the next renewal, for as long as the
// other members have it. After that, another member may restart. The fence stays.
func TestOneAfterTheOtherRestarts(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		short := r.TTL
		r.TTL = 55 * time.Second
		c[0].clock.ahead.Store(int64(time.Hour)) // so the fence is greater than the other members would mint
		g := take(t, a, r)
		pass(time.Second)
		for i := range 9 {
			c[i%3].restart()
			again, err := a.Extend(t.Context(), r.Name, r.Token.Text(), short)
			if err != nil || again.Fence != g.Fence {
				safety.Broken(t, "after restart %d: %v, fence %d, was %d", i+1, err, again.Fence, g.Fence)
				t.FailNow()
			}
			pass(time.Second)
			wantHolders(t, c, "n", 1, 2, 3)
			_, err = b.Acquire(t.Context(), request("n"))
			wantErr(t, err, driver.ErrHeld)
			pass(time.Millisecond)
		}
		if n := c.atLeast("n", g.Fence); n != 3 {
			t.Errorf("%d members have the fence", n)
		}
		pass(30 * time.Second) // without a renewal
		wantLive(t, a, r)
		wantHolders(t, c, "n", 1, 2, 3)
		wantOutcome(t, a, r, driver.OutcomeReleased)
	})
}

// redsync's issue 186: three of five hold, one of them restarts, and somebody
// else finds three that are free. Here the hold is on all five before.
func TestRestartOfOneLetsNobodyIn(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), request("n")
		a.these(down, 4, 5)
		take(t, a, r)
		a.heal()
		if err := extend(t, a, r); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		c[0].restart()
		_, err := b.Acquire(t.Context(), request("n"))
		wantErr(t, err, driver.ErrHeld)
	})
}

// A member that denies the hold gets it back only if a quorum of others
// confirms in the same round: otherwise somebody else may have had the name.
func TestRepairOnlyWhileAQuorumOfOthersConfirms(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		c[0].restart()
		a.these(silent, 2)
		err := extend(t, a, r) // one confirms, one denies, one is silent
		wantErr(t, err, driver.ErrUncertain, driver.ErrLost)
		pass(time.Second)
		wantHolders(t, c, "n", 2, 3)
		if n := a.links[0].count("acquire"); n != 1 {
			t.Errorf("it was acquired %d times at the member that restarted", n)
		}
		a.these(lostCall, 2)
		wantErr(t, extend(t, a, r), driver.ErrUncertain, driver.ErrLost)
		pass(time.Second)
		wantHolders(t, c, "n", 2, 3)
		c[1].restart()
		a.heal()
		wantErr(t, extend(t, a, r), driver.ErrLost)
		pass(time.Second)
		wantHolders(t, c, "n", 3)

		// Verifying changes nothing.
		r = request("m")
		take(t, a, r)
		pass(time.Millisecond)
		c[0].restart()
		wantLive(t, a, r)
		pass(time.Second)
		wantHolders(t, c, "m", 2, 3)
	})
}

// Another caller took a member in the meantime. That member is not disturbed.
func TestRepairLeavesOthersAlone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r, other := open(), request("n"), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		c[2].restart()
		take(t, c[2].now(), other)
		for range 3 {
			if err := extend(t, a, r); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		wantLive(t, c[2].now(), other)
		wantOutcome(t, a, r, driver.OutcomeReleased)
		pass(time.Second)
		wantLive(t, c[2].now(), other)
	})
}

func TestExtendOfACancelledCaller(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		a.these(silent, 1, 2, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := a.Extend(ctx, r.Name, r.Token.Text(), r.TTL)
		wantErr(t, err, context.DeadlineExceeded, driver.ErrLost)
		wantErr(t, err, driver.ErrUncertain)
		a.heal()
		wantLive(t, a, r)
	})
}

// The window counts from the instant before the first request. It ends when the first lease ends
// among the members that are needed.
func TestWindow(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		a.links[1].always(slow(200 * time.Millisecond))
		a.links[2].always(down)
		var g driver.Grant
		d := took(func() { g = take(t, a, r) })
		if g.From != 0 || g.TTL != r.TTL || d < 200*time.Millisecond {
			t.Errorf("granted %+v after %v", g, d)
		}
		a.heal()
		if _, err := c[0].now().Extend(t.Context(), r.Name, r.Token.Text(), time.Hour); err != nil {
			t.Fatal(err)
		}
		left := r.TTL - d // what would be left of the first member's lease without the Extend above
		g, err := a.Extend(t.Context(), r.Name, r.Token.Text(), 0)
		if err != nil || g.TTL > r.TTL || g.TTL < left {
			t.Errorf("of %v there are %v left: %v", r.TTL, g.TTL, err)
		}
		if errors.Is(err, driver.ErrLost) {
			t.Error(err)
		}
	})
}

// aged is a memstore whose leases begin some time before the request.
type aged struct {
	*memstore.Store
	age time.Duration
}

func (a *aged) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := a.Store.Acquire(ctx, r)
	g.From = g.From.Add(-a.age)
	return g, err
}

// If a member's lease began earlier, it ends earlier, and so does the window.
func TestWindowFromEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := quorum.New(quorum.All, []driver.Store{memstore.New(), &aged{memstore.New(), 3 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := request("n")
		if g := take(t, s, r); g.From != 0 || g.TTL != r.TTL-3*time.Second {
			t.Errorf("granted %+v", g)
		}
	})
}

// A hold that nobody extends ends after its TTL, at most two fifths of it later. A renewal of the
// store's own, right after the grant, must not make it longer, even if members may take long.
func TestRenewalAfterTheGrantIsInTime(t *testing.T) {
	for _, ttl := range []time.Duration{driver.MinTTL, 250 * time.Millisecond, 600 * time.Millisecond, 2 * time.Second} {
		for _, answers := range []time.Duration{0, ttl * 7 / 10, 900 * time.Millisecond} { // the member that refuses
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				a := c.client(t, quorum.Majority, quorum.MemberTimeout(time.Second))
				t.Cleanup(func() { a.Close() })
				rival := request("n")
				take(t, c[2].now(), rival)
				a.links[2].next("acquire", slow(answers))
				r := request("n")
				r.TTL = ttl
				take(t, a, r)
				pass(ttl + ttl*2/5)
				if got := c.holders("n"); !slices.Equal(got, []int{3}) {
					t.Errorf("a hold of %v, which nobody extends, is on the members %v after %v; the third answered after %v", ttl, got, ttl+ttl*2/5, answers)
				}
			})
		}
	}
}
