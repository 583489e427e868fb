package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestHandOverWithoutAClaim passes a name on among processes. Each uses its reservation and
// releases it, which takes one request for each hand-over.
func TestHandOverWithoutAClaim(t *testing.T) {
	t.Parallel()
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, srv *server.Server) {
		layout := []redisstore.Option{redisstore.Prefix("set:")}
		if strings.HasSuffix(t.Name(), "/string") {
			layout = []redisstore.Option{redisstore.Prefix("string:"), redisstore.PlainStrings()}
		}
		r := request("job")
		fence := take(t, s, r).Fence
		var line []*waiting
		for range 8 {
			line = append(line, waits(t, opened(t, srv.Addr(), layout...), "job"))
		}
		free(t, s, r)
		usable, late := 0, 0
		before := commands(t, srv)
		for _, w := range line {
			a := <-w.done
			if a.err != nil || a.g.Fence <= fence {
				t.Fatalf("after fence %d: %+v, %v", fence, a.g, a.err)
			}
			fence = a.g.Fence
			if a.g.From != 0 {
				usable++
			}
			out, err := w.s.Release(t.Context(), "job", w.r.Token, 0)
			switch {
			case err == nil && out != driver.OutcomeReleased && lapsed(a.g):
				late++
			case err != nil || out != driver.OutcomeReleased:
				t.Fatalf("Release: %v, %v", out, err)
			}
		}
		// A waiter may also look while the name is handed over, which is one more request. A waiter
		// whose goroutine slept has to claim.
		n := commands(t, srv) - before
		if late == 0 && (usable < 4 || n > 8+4) {
			t.Errorf("of 8 hand-overs %d were usable at once, and all took %d requests", usable, n)
		}
		if st, err := s.Inspect(t.Context(), "job"); err != nil || len(st.Holds) != 0 || st.Waiters != 0 {
			t.Errorf("afterwards: %+v, %v", st, err)
		}
	})
}

// TestClaimThatTakesNothing: a request that replaces its own token claims a reservation, and never
// takes a free name.
func TestClaimThatTakesNothing(t *testing.T) {
	t.Parallel()
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, srv *server.Server) {
		opts := []redisstore.Option{redisstore.Prefix("set:")}
		if strings.HasSuffix(t.Name(), "/string") {
			opts = []redisstore.Option{redisstore.Prefix("string:"), redisstore.PlainStrings()}
		}
		other := opened(t, srv.Addr(), opts...)
		var a waited
		var claim driver.Request
		var g driver.Grant
		var err error
		untilInTime(t, func(string) (late bool) {
			r := request("job")
			take(t, s, r)
			w := waits(t, other, "job")
			free(t, s, r)
			a, claim = <-w.done, w.r
			claim.Replaces = claim.Token
			g, err = other.Acquire(t.Context(), claim)
			return err != nil && lapsed(a.g)
		})
		if err != nil || g.Fence != a.g.Fence || g.TTL < claim.TTL-time.Second {
			t.Fatalf("the claim of fence %d: %+v, %v", a.g.Fence, g, err)
		}
		if g, err = other.Extend(t.Context(), "job", claim.Token, 0); err != nil || g.TTL <= driver.MaxReservation {
			t.Errorf("after the claim: %+v, %v", g, err)
		}
		free(t, other, claim)
		_, err = other.Acquire(t.Context(), claim)
		wantIs(t, err, driver.ErrLost, "a claim after the release")
		if st, err := s.Inspect(t.Context(), "job"); err != nil || len(st.Holds) != 0 {
			t.Errorf("afterwards: %+v, %v", st, err)
		}
	})
}

// TestUnclaimedReservationEnds: the name goes to the next waiter when the time of a reservation is
// over, and the late release of the reservation ends nothing.
func TestUnclaimedReservationEnds(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	first := opened(t, srv.Addr())
	r := request("job")
	take(t, first, r)
	stuck, next := waits(t, opened(t, srv.Addr()), "job"), waits(t, opened(t, srv.Addr()), "job")
	free(t, first, r)
	a := <-stuck.done
	g, _ := next.got()
	if a.err != nil {
		t.Fatal(a.err)
	}
	if a.g.From != 0 && driver.SystemClock().Now() < a.g.From.Add(a.g.TTL) {
		t.Error("the name was handed on before the window was over")
	}
	if out, err := stuck.s.Release(t.Context(), "job", stuck.r.Token, 0); err != nil || out != driver.OutcomeGone {
		t.Errorf("the late release: %v, %v", out, err)
	}
	if v, err := next.s.Extend(t.Context(), "job", next.r.Token, 0); err != nil || v.Fence != g.Fence {
		t.Errorf("the next holder after it: %+v, %v", v, err)
	}
}
