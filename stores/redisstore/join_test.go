package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// sameLayout returns the options of the store that bothLayouts has opened for t.
func sameLayout(t *testing.T) []redisstore.Option {
	if strings.HasSuffix(t.Name(), "/string") {
		return []redisstore.Option{redisstore.Prefix("string:"), redisstore.PlainStrings()}
	}
	return []redisstore.Option{redisstore.Prefix("set:")}
}

// handsOn lets s hand a name over to a waiter of another process, and returns that waiter.
func handsOn(t *testing.T, s *redisstore.Store, other driver.Store, name string) *waiting {
	t.Helper()
	r := request(name)
	take(t, s, r)
	w := waits(t, other.(*redisstore.Store), name)
	free(t, s, r)
	return w
}

// TestWaitTakesAFreeName: Wait reserves a free name, and the waiter claims it.
func TestWaitTakesAFreeName(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for what, c := range map[string]struct {
		opts []redisstore.Option
		r    func(*driver.Request)
	}{
		"a set":                    {},
		"a set without fences":     {opts: []redisstore.Option{redisstore.NoFences()}},
		"a string":                 {opts: []redisstore.Option{redisstore.PlainStrings()}},
		"a string without fences":  {opts: []redisstore.Option{redisstore.PlainStrings(), redisstore.NoFences()}},
		"names that PHP polls":     {opts: []redisstore.Option{redisstore.Foreign()}},
		"a TTL of a reservation":   {r: func(r *driver.Request) { r.TTL = driver.MaxReservation }},
		"a shared hold":            {r: func(r *driver.Request) { r.Shared = true }},
		"a fence above another":    {r: func(r *driver.Request) { r.FenceAbove = 1 }},
		"a holder without details": {r: func(r *driver.Request) { r.Holder = driver.Holder{} }},
	} {
		t.Run(what, func(t *testing.T) {
			s := opened(t, srv.Addr(), append(c.opts, redisstore.Prefix(what+":"))...)
			eventually(t, "a claim before the reservation lapses", func() bool {
				r := request("job")
				if c.r != nil {
					c.r(&r)
				}
				began := time.Now()
				g, err := s.Wait(t.Context(), r, true)
				if err != nil || g.TTL <= 0 || g.TTL > driver.MaxReservation {
					t.Fatalf("Wait: %+v, %v", g, err)
				}
				st, err := s.Inspect(t.Context(), "job")
				claimed, failed := s.Acquire(t.Context(), r)
				inTime := time.Since(began) < driver.MaxReservation
				if inTime && (err != nil || len(st.Holds) != 1 || st.Holds[0].Host != r.Holder.Host || st.Waiters != 0) {
					t.Errorf("the name: %+v, %v", st, err)
				}
				if inTime && (failed != nil || claimed.Fence != g.Fence) {
					t.Errorf("the claim of fence %d: %+v, %v", g.Fence, claimed, failed)
				}
				out, err := s.Release(t.Context(), "job", r.Token.Text(), 0)
				if err != nil || inTime && out != driver.OutcomeReleased && time.Since(began) < driver.MaxReservation {
					t.Errorf("Release: %v, %v", out, err)
				}
				return inTime
			})
		})
	}
}

// TestLostReplyOfAJoin: the reply that reserves a free name is lost. The waiter finds its
// reservation when it looks, with the same fence.
func TestLostReplyOfAJoin(t *testing.T) {
	t.Parallel()
	bothLayouts(t, func(t *testing.T, _ *redisstore.Store, srv *server.Server) {
		p := server.NewProxy(t, srv.Addr())
		s := opened(t, p.Addr(), sameLayout(t)...)
		handsOn(t, s, s, "so that the server knows the scripts").got()
		p.LoseReply(changes)
		r := request("job")
		g, err := s.Wait(t.Context(), r, true)
		if err != nil || g.TTL <= 0 {
			t.Fatalf("Wait: %+v, %v", g, err)
		}
		claimed, err := s.Acquire(t.Context(), r)
		if err != nil || claimed.Fence != g.Fence || claimed.TTL < 50*time.Second {
			t.Errorf("the claim of fence %d: %+v, %v", g.Fence, claimed, err)
		}
		free(t, s, r)

		// A caller that goes away at the same moment leaves nothing behind.
		ctx, cancel := context.WithCancel(t.Context())
		p.LoseReply(func(b []byte) bool {
			if changes(b) {
				cancel()
			}
			return changes(b)
		})
		if g, err := s.Wait(ctx, request("job"), true); err == nil {
			t.Fatalf("Wait: %+v", g)
		}
		eventually(t, "the name is given back", func() bool {
			st, err := s.Inspect(t.Context(), "job")
			return err == nil && len(st.Holds) == 0 && st.Waiters == 0
		})
	})
}
