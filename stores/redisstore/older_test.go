package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/server"
)

// Older builds keep waiters for a permit in the queue of the gate, with the mode p. Such a waiter
// gets the gate in its turn, from each script that ends a hold.
func TestOlderWaitersForPermitsAreServed(t *testing.T) {
	t.Parallel()
	for how, keep := range map[string]time.Duration{"a short script": 0, "the full script": driver.MinTTL} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			olderWaiterIsServed(t, server.Redis(t, server.RedisOptions{}), keep)
		})
	}
}

func olderWaiterIsServed(t *testing.T, srv *server.Server, keep time.Duration) {
	t.Helper()
	s, older, newer := opened(t, srv.Addr()), opened(t, srv.Addr()), opened(t, srv.Addr())
	gate := request(fast.SlotGate("job", 1))
	take(t, s, gate)
	first, second := request(gate.Name), request(gate.Name)
	got, next := make(chan driver.Grant, 1), make(chan driver.Grant, 1)
	wait := func(s driver.Waiter, r driver.Request, to chan driver.Grant, after string) {
		go func() {
			g, _ := s.Wait(context.WithoutCancel(t.Context()), r, true)
			to <- g
		}()
		eventually(t, after, func() bool { return ask(t, srv, "ZSCORE", keyOf(t, srv, "q:", gate.Name), r.Token.Text()) != "" })
	}
	wait(older, first, got, "the older waiter is in the queue")
	h := keyOf(t, srv, "h:", gate.Name)
	record := strings.Fields(ask(t, srv, "HGET", h, "w"+first.Token.Text()))
	record[4] = "p"
	ask(t, srv, "HSET", h, "w"+first.Token.Text(), strings.Join(record, " "))
	wait(newer, second, next, "the newer waiter is in the queue")
	if _, err := s.Release(t.Context(), gate.Name, gate.Token.Text(), keep); err != nil {
		t.Fatal(err)
	}
	g := <-got
	early := len(next)
	out, err := older.Release(t.Context(), first.Name, first.Token.Text(), 0)
	if g.TTL == 0 || early > 0 || err != nil || out != driver.OutcomeReleased {
		t.Errorf("the older waiter gets %+v, and the newer one %d hand-overs before the release: %v, %v", g, early, out, err)
	}
	if g := <-next; g.TTL == 0 {
		t.Errorf("the newer waiter gets %+v", g)
	}
}

// keyOf returns the key of a name whose kind is the given letter, or "none".
func keyOf(t *testing.T, srv *server.Server, kind, name string) string {
	t.Helper()
	for _, key := range allKeys(t, srv) {
		if strings.HasSuffix(key, "}"+kind+name) {
			return key
		}
	}
	return "none"
}

func allKeys(t *testing.T, srv *server.Server) []string {
	t.Helper()
	c := rawClient(t, single(srv.Addr()))
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
