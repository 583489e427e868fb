package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

func convert(t *testing.T, s driver.Store, r driver.Request, shared bool) (driver.Grant, error) {
	t.Helper()
	r.Shared = shared
	return s.(driver.Converter).Convert(t.Context(), r)
}

func promoted(t *testing.T, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := convert(t, s, r, false)
	if err != nil {
		t.Fatalf("promotion: %v", err)
	}
	return g
}

// wantModes checks in which mode each member has name: 's', 'x' or '-'.
func wantModes(t *testing.T, c cluster, name, want string) {
	t.Helper()
	got := ""
	for _, srv := range c {
		s, _ := srv.now().Inspect(context.Background(), name)
		switch {
		case len(s.Holds) == 0:
			got += "-"
		case s.Holds[0].Shared:
			got += "s"
		default:
			got += "x"
		}
	}
	if got != want {
		t.Fatalf("the members have it as %s, want %s", got, want)
	}
}

// A promotion succeeds at a quorum, writes a new fence to a quorum and keeps new readers out. A
// demotion keeps the fence.
func TestPromoteAndDemote(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, b, r := open(), open(), reader("n")
		a.these(down, 5)
		b.these(down, 1)
		c[0].clock.ahead.Store(int64(time.Hour)) // b does not reach the member with the greatest fence
		g := take(t, a, r)
		pass(time.Millisecond)
		up := promoted(t, a, r)
		if up.Fence <= g.Fence || c.atLeast("n", up.Fence) < 3 {
			t.Errorf("fence %d, then %d, which %d members have", g.Fence, up.Fence, c.atLeast("n", up.Fence))
		}
		pass(time.Millisecond)
		_, err := b.Acquire(t.Context(), reader("n"))
		wantErr(t, err, driver.ErrHeld)
		again, err := convert(t, a, r, false)
		if err != nil || again.Fence != up.Fence {
			t.Errorf("again: %+v, %v", again, err)
		}
		d, err := convert(t, a, r, true)
		if err != nil || d.Fence != up.Fence {
			t.Errorf("demoted: %+v, %v; the fence was %d", d, err, up.Fence)
		}
		pass(time.Millisecond)
		take(t, b, reader("n"))
		wantOutcome(t, a, r, driver.OutcomeReleased)
		if w := request("m"); take(t, b, w).Fence == 0 {
			t.Error("no fence")
		}
	})
}

// T-P3: two readers want to be promoted. One waits and the other gets ErrPromotionConflict,
// whichever members each of them reached.
func TestTwoPromotersOneIsTold(t *testing.T) {
	for _, n := range []int{3, 4, 5} {
		bubble(t, n, func(t *testing.T, c cluster, open func() *client) {
			clients := []*client{open(), open()}
			for i, cl := range clients { // the first client reaches the low members first, the second the high ones
				for j, l := range cl.links {
					l.always(slow(time.Duration(1+(1-2*i)*j+i*n) * time.Millisecond))
				}
			}
			for range 3 {
				rs := []driver.Request{reader("n"), reader("n")}
				take(t, clients[0], rs[0])
				take(t, clients[1], rs[1])
				pass(time.Second)
				errs := together(t, 2, func(_ context.Context, i int) error {
					_, err := convert(t, clients[i], rs[i], false)
					return err
				})
				told := 0
				for i, err := range errs {
					switch {
					case errors.Is(err, driver.ErrPromotionConflict):
						told = i
					case !errors.Is(err, driver.ErrHeld):
						t.Fatalf("promotion while another reader holds: %v", err)
					}
				}
				if errors.Is(errs[1-told], driver.ErrPromotionConflict) || errors.Is(errs[told], driver.ErrHeld) {
					t.Fatalf("want one told and one waiting: %v", errs)
				}
				wantLive(t, clients[told], rs[told])
				wantNoIntents(t, clients[1-told], rs[1-told])
				wantOutcome(t, clients[told], rs[told], driver.OutcomeReleased)
				pass(time.Second)
				promoted(t, clients[1-told], rs[1-told])
				wantOutcome(t, clients[1-told], rs[1-told], driver.OutcomeReleased)
				pass(3 * time.Second)
			}
		})
	}
}

// wantNoIntents withdraws r's own intent to be promoted, and checks that no other intent keeps
// readers out.
func wantNoIntents(t *testing.T, cl *client, r driver.Request) {
	t.Helper()
	if _, err := convert(t, cl, r, true); err != nil {
		t.Fatal(err)
	}
	pass(20 * time.Millisecond)
	newcomer := reader("n")
	take(t, cl, newcomer)
	wantOutcome(t, cl, newcomer, driver.OutcomeReleased)
	pass(20 * time.Millisecond)
}

// After a failed promotion a quorum has the shared hold and no member an exclusive one, or the
// error says that the hold is lost.
func TestFailedPromotion(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), reader("n")
		take(t, a, r)
		pass(time.Millisecond)
		other := reader("n")
		for _, srv := range c[2:] {
			take(t, srv.now(), other)
		}
		_, err := convert(t, a, r, false)
		wantErr(t, err, driver.ErrHeld, driver.ErrLost)
		wantModes(t, c, "n", "sssss")
		wantLive(t, a, r)
		pass(time.Millisecond)

		// Members that were silent are corrected by the next renewal.
		for _, srv := range c[2:] {
			wantOutcome(t, srv.now(), other, driver.OutcomeReleased)
		}
		a.these(fault{mute: true}, 3, 4, 5)
		_, err = convert(t, a, r, false)
		wantErr(t, err, driver.ErrUncertain, driver.ErrLost)
		pass(time.Second)
		wantModes(t, c, "n", "ssxxx")
		a.heal()
		if err := extend(t, a, r); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wantModes(t, c, "n", "sssss")

		for _, srv := range c[:3] {
			srv.restart()
		}
		_, err = convert(t, a, r, false)
		wantErr(t, err, driver.ErrLost, driver.ErrHeld)
	})
}

// A promotion fails if its fence cannot be written to a quorum.
func TestPromotionNeedsItsFence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), reader("n")
		take(t, a, r)
		pass(time.Millisecond)
		c[0].clock.ahead.Store(int64(time.Second))
		for _, l := range a.links[1:] {
			l.set(func(op string) fault {
				if op == "raise" {
					return down
				}
				return slow(time.Millisecond)
			})
		}
		_, err := convert(t, a, r, false)
		wantErr(t, err, driver.ErrUnavailable, driver.ErrLost)
		pass(time.Second)
		wantModes(t, c, "n", "sss")
		a.heal()
		promoted(t, a, r)
	})
}

// A promotion has a greater fence even if the member with the greatest one missed the demotion.
func TestPromotionAfterAMissedDemotion(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		c[2].clock.ahead.Store(int64(time.Hour))
		a.links[0].set(func(op string) fault { // so it keeps a lower fence
			if op == "raise" {
				return down
			}
			return fault{}
		})
		g := take(t, a, r)
		pass(time.Millisecond)
		a.these(down, 3)
		if _, err := convert(t, a, r, true); err != nil {
			t.Fatal(err)
		}
		a.heal()
		a.these(down, 2)
		if up := promoted(t, a, r); up.Fence <= g.Fence {
			t.Errorf("SAFETY: fence %d, and %d after the promotion", g.Fence, up.Fence)
		}
	})
}

// A conversion never shortens the lease, even if a member missed the last Extend.
func TestConversionKeepsTheLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		a.these(down, 3)
		if _, err := a.Extend(t.Context(), r.Name, r.Token, time.Hour); err != nil {
			t.Fatal(err)
		}
		a.heal()
		a.these(down, 2)
		if g, err := convert(t, a, r, true); err != nil || g.TTL < 50*time.Minute {
			t.Errorf("an hour was left, and the conversion returns %+v, %v", g, err)
		}
	})
}

// A demotion whose outcome is unknown may have let readers in, so it counts as done.
func TestUncertainDemotion(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		g := take(t, a, r)
		pass(time.Millisecond)
		a.these(fault{mute: true}, 2)
		a.these(silent, 3)
		_, err := convert(t, a, r, true)
		wantErr(t, err, driver.ErrUncertain, driver.ErrLost)
		a.heal()
		if err := extend(t, a, r); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wantModes(t, c, "n", "sss")
		if d, err := convert(t, a, r, true); err != nil || d.Fence != g.Fence {
			t.Errorf("again: %+v, %v; the fence was %d", d, err, g.Fence)
		}
	})
}

// A demotion whose outcome is unknown must not arrive after a later promotion.
func TestLateDemotionDoesNotMeetAPromotion(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c cluster, open func() *client) {
		a, r := open(), request("n")
		take(t, a, r)
		pass(time.Millisecond)
		for _, l := range a.links[:2] {
			l.next("convert", late(400*time.Millisecond))
		}
		_, err := convert(t, a, r, true)
		wantErr(t, err, driver.ErrUncertain)
		for err != nil {
			_, err = convert(t, a, r, false)
			wantErr(t, err, err, driver.ErrLost)
			pass(10 * time.Millisecond)
		}
		pass(time.Second)
		wantModes(t, c, "n", "xxx")
	})
}

// Under All the members promote in order, so one of two has all.
func TestPromoteUnderAll(t *testing.T) {
	bubbleOf(t, quorum.All, 3, func(t *testing.T, c cluster, open func() *client) {
		a, b, ra, rb := open(), open(), reader("n"), reader("n")
		take(t, a, ra)
		take(t, b, rb)
		_, err := convert(t, a, ra, false)
		wantErr(t, err, driver.ErrHeld)
		_, err = convert(t, b, rb, false)
		wantErr(t, err, driver.ErrPromotionConflict)
		wantOutcome(t, b, rb, driver.OutcomeReleased)
		promoted(t, a, ra)
		wantModes(t, c, "n", "xxx")
		a.links[1].always(down)
		_, err = convert(t, a, ra, true)
		wantErr(t, err, driver.ErrUncertain)
		a.heal()
		if _, err = convert(t, a, ra, true); err != nil {
			t.Fatal(err)
		}
		c[2].clock.ahead.Store(int64(time.Minute))
		_, err = convert(t, a, ra, false)
		wantErr(t, err, driver.ErrExpired)
		pass(time.Second)
	})
}

func TestConvertWhereAMemberCannot(t *testing.T) {
	s, err := quorum.New(quorum.Majority, []driver.Store{withFence(driver.FenceNone)}, quorum.NoFences())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for op, err := range map[string]error{
		"Convert": errOf(s.Convert(t.Context(), request("n"))),
		"Wait":    errOf(s.Wait(t.Context(), request("n"), true)),
		"Inspect": errOf(s.Inspect(t.Context(), "n")),
		"List":    errOf(s.List(t.Context(), "")),
		"Break":   errOf(s.Break(t.Context(), "n", 1)),
		"Raise":   s.RaiseFence(t.Context(), "n", "token", 1),
		"Status":  errOf(s.Status(t.Context())),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: want errors.ErrUnsupported, got %v", op, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }
