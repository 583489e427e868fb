package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// TestLateHandOver sends a waiter the message of a hand-over that is over: the reservation has
// lapsed, another caller has the name, and the waiter has joined the queue again.
func TestLateHandOver(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	s := opened(t, srv.Addr())
	r := request("job")
	holder := take(t, s, r)
	w := waits(t, opened(t, srv.Addr()), r.Name)
	record := strings.Fields(ask(t, srv, "HGET", keyOf(t, srv, "h:", r.Name), "w"+w.r.Token.Text()))
	ask(t, srv, "PUBLISH", "padlock:"+record[2], "h "+record[3]+" "+strconv.FormatUint(holder.Fence, 10))
	free(t, s, r)
	if a := <-w.done; a.err != nil || !safety.Rises(t, a.g.Fence, holder.Fence) {
		t.Fatalf("the waiter gets %+v, %v; want a hand-over after the fence %d", a.g, a.err, holder.Fence)
	}
}

// TestRefusedClaimLeavesTheQueue: a token that Acquire refuses has nothing, and no place either. The
// place would cost those behind it a reservation that nobody claims.
func TestRefusedClaimLeavesTheQueue(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for layout, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings(), redisstore.Prefix("s:")}} {
		s := opened(t, srv.Addr(), opts...)
		r := request("job")
		take(t, s, r)
		first := waits(t, opened(t, srv.Addr(), opts...), r.Name)
		second := waits(t, opened(t, srv.Addr(), opts...), r.Name)
		_, err := s.Acquire(t.Context(), first.r)
		wantIs(t, err, driver.ErrHeld, "the claim without a reservation, "+layout)
		if n := second.queued(); n != 1 {
			t.Errorf("%s: after the refusal, %d tokens are in the queue, want 1", layout, n)
		}
		free(t, s, r)
		second.got()
	}
}

// TestSlowConnections: a waiter whose round trips are longer than a reservation has time to claim
// the name before the next waiter gets it.
func TestSlowConnections(t *testing.T) {
	t.Parallel()
	for _, trip := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			proxy := server.NewProxy(t, srv.Addr())
			proxy.Disturb(server.Trouble{Delay: trip / 2}, server.Trouble{Delay: trip / 2})
			s := opened(t, srv.Addr())
			r := request("job")
			take(t, s, r)
			slow := waits(t, opened(t, proxy.Addr()), r.Name)
			waits(t, opened(t, srv.Addr()), r.Name)
			h, field := keyOf(t, srv, "h:", r.Name), "w"+slow.r.Token.Text()
			raw := rawClient(t, single(srv.Addr()))
			eventually(t, "the waiter asks for enough time", func() bool {
				id := strings.Fields(askBy(t, raw, "HGET", h, field))[3]
				return len(id) > int(2*trip/driver.MaxReservation) && (id[0] == '0' || trip < driver.MaxReservation)
			})
			free(t, s, r)
			a := <-slow.done
			g, err := slow.s.Acquire(t.Context(), slow.r)
			if err != nil || g.Fence != a.g.Fence {
				t.Fatalf("the claim of %+v, %v: %+v, %v", a.g, a.err, g, err)
			}
		})
	}
}
