package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// bothLayouts runs f against a store of each layout, on one server.
func bothLayouts(t *testing.T, f func(t *testing.T, s *redisstore.Store, srv *server.Server)) {
	srv := server.Redis(t, server.RedisOptions{})
	for layout, opts := range map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}} {
		t.Run(layout, func(t *testing.T) {
			f(t, opened(t, srv.Addr(), append(opts, redisstore.Prefix(layout+":"))...), srv)
		})
	}
}

// A waiter in the process that releases learns of the hand-over from the reply to the release. It
// has a whole lease, which began before the release.
func TestReleaseGrantsToItsOwnWaiter(t *testing.T) {
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, _ *server.Server) {
		r := request("own")
		before := take(t, s, r)
		w := waits(t, s, r.Name)
		if out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
			t.Fatal(out, err)
		}
		got := <-w.done
		if got.err != nil || got.g.From == 0 || got.g.TTL != w.r.TTL || !safety.Rises(t, got.g.Fence, before.Fence) {
			t.Fatalf("after fence %d: %+v, %v", before.Fence, got.g, got.err)
		}
		g, err := s.Extend(t.Context(), r.Name, w.r.Token.Text(), 0)
		if err != nil || g.Fence != got.g.Fence || g.TTL <= driver.MaxReservation {
			t.Errorf("in the store it is %+v, %v", g, err)
		}
		st, err := s.Inspect(t.Context(), r.Name)
		if err != nil || len(st.Holds) != 1 || st.Holds[0].Holder != w.r.Holder || st.Waiters != 0 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// A waiter that gives up while a release grants it the name leaves nothing
// behind.
func TestGivingUpWhenGranted(t *testing.T) {
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, _ *server.Server) {
		granted := 0
		for i := range 60 {
			r := request("given up")
			if _, err := s.Acquire(t.Context(), r); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			w := waits(t, s, r.Name)
			released := make(chan error)
			go func() {
				_, err := s.Release(context.Background(), r.Name, r.Token.Text(), 0)
				released <- err
			}()
			if i%3 != 0 { // else it gets the name
				w.cancel()
			}
			got := <-w.done
			if err := <-released; err != nil {
				t.Fatal(err)
			}
			if got.err == nil {
				granted++
				if _, err := s.Release(t.Context(), r.Name, w.r.Token.Text(), 0); err != nil {
					t.Fatal(err)
				}
			} else if !errors.Is(got.err, context.Canceled) {
				t.Fatal(got.err)
			}
			eventually(t, "the name is free", func() bool {
				st, err := s.Inspect(t.Context(), r.Name)
				return err == nil && len(st.Holds) == 0 && st.Waiters == 0
			})
		}
		if granted < 20 {
			t.Errorf("only %d of 60 were granted the name", granted)
		}
	})
}

// Pass works on a server that forgot its scripts, and on names with other records besides the hold:
// released tokens, and waiters that gave up.
func TestPassOffTheBeatenTrack(t *testing.T) {
	bothLayouts(t, func(t *testing.T, s *redisstore.Store, srv *server.Server) {
		r := request("a {b} \x00 c")
		take(t, s, r)
		ask(t, srv, "SCRIPT", "FLUSH", "SYNC")
		pass := func(why string) {
			t.Helper()
			next := request(r.Name)
			out, g, err := s.Pass(t.Context(), r.Token.Text(), next)
			if out != driver.OutcomeReleased || g.TTL != next.TTL || err != nil {
				t.Fatalf("%s: %v, %+v, %v", why, out, g, err)
			}
			r = next
		}
		pass("scripts forgotten")
		if out, err := s.Release(t.Context(), r.Name, newToken(), 0); out != driver.OutcomeGone || err != nil {
			t.Fatal(out, err)
		}
		pass("a token came too late")
		w := waits(t, s, r.Name)
		w.cancel()
		<-w.done
		eventually(t, "the waiter has left", func() bool { return w.queued() == 0 })
		pass("a waiter gave up")
		late := request(r.Name)
		if out, err := s.Release(t.Context(), r.Name, late.Token.Text(), 0); out != driver.OutcomeGone || err != nil {
			t.Fatal(out, err)
		}
		if out, g, err := s.Pass(t.Context(), r.Token.Text(), late); out != driver.OutcomeReleased || g.TTL != 0 || err != nil {
			t.Fatalf("Pass to a token that was released before: %v, %+v, %v", out, g, err)
		}
		if st, err := s.Inspect(t.Context(), r.Name); err != nil || len(st.Holds) != 0 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// The store lacks Pass in cases in which it would save no request.
func TestPassUnsupported(t *testing.T) {
	srv := server.Redis(t, server.RedisOptions{})
	for what, opts := range map[string][]redisstore.Option{"with pollers": {redisstore.Foreign()}} {
		s := opened(t, srv.Addr(), append(opts, redisstore.Prefix(what))...)
		r := request("name")
		take(t, s, r)
		if _, ok := driver.As[fast.Passer](s); ok {
			t.Errorf("%s: the store does not say that it lacks Pass", what)
		}
		if _, _, err := s.Pass(t.Context(), r.Token.Text(), request("name")); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), 55*time.Second); err != nil {
			t.Errorf("%s, after Pass: %v", what, err)
		}
	}
}

// TestAFirstReaderKeepsItsPlace: the fast release cannot hand a name over to a reader. The full
// script does that, so the reader must still be the first in the queue then, with all of the
// queue's keys.
func TestAFirstReaderKeepsItsPlace(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	for _, others := range []int{0, 1} {
		s := opened(t, srv.Addr())
		r := request("job")
		take(t, s, r)
		reader := waitsFor(t, opened(t, srv.Addr()), reading(request("job")))
		var writers []*waiting
		for range others {
			writers = append(writers, waits(t, opened(t, srv.Addr()), "job"))
		}
		calls := callsOf(t, srv, "zpopmin")
		free(t, s, r)
		if callsOf(t, srv, "zpopmin") == calls {
			t.Fatal("the release did not try the fast hand-over")
		}
		reader.got()
		for _, w := range writers {
			if len(w.done) > 0 {
				t.Fatal("a writer got the name before the reader that came first")
			}
		}
		free(t, reader.s, reader.r)
		for _, w := range writers {
			w.got()
			free(t, w.s, w.r)
		}
	}
}

// TestLostHandOverPastADeadWaiter: the process of the first waiter is gone. The holder's release
// ends the hold, and the request that hands the name over to the next waiter is lost. The store
// sends it again, so that this waiter does not have to find the free name by a look.
func TestLostHandOverPastADeadWaiter(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	bothLayouts(t, func(t *testing.T, _ *redisstore.Store, srv *server.Server) {
		ours, theirs := server.NewProxy(t, srv.Addr()), server.NewProxy(t, srv.Addr())
		holder, first := opened(t, ours.Addr(), sameLayout(t)...), opened(t, theirs.Addr(), sameLayout(t)...)
		next := opened(t, srv.Addr(), sameLayout(t)...)
		handsOn(t, holder, first, "so that the server knows the scripts").got()
		r := request("job")
		take(t, holder, r)
		waits(t, first, r.Name)
		theirs.Refuse(func([]byte) bool { return true })
		w := waits(t, next, r.Name)
		<-time.After(3 * time.Second) // a waiter looks seldom after its first seconds
		var lost atomic.Bool
		ours.Refuse(func(request []byte) bool {
			withoutToken := bytes.Contains(request, []byte("\r\n$0\r\n\r\n$1\r\n0\r\n"))
			return withoutToken && lost.CompareAndSwap(false, true)
		})
		eventually(t, "the holder is connected again", func() bool {
			_, err := holder.Inspect(t.Context(), r.Name)
			return err == nil
		})
		free(t, holder, r)
		if !lost.Load() {
			t.Fatal("the release sent no further request")
		}
		select {
		case a := <-w.done:
			if a.err != nil || a.g.TTL <= 0 {
				t.Errorf("Wait: %+v, %v", a.g, a.err)
			}
		case <-time.After(8 * time.Second): // a waiter looks every 15 s
			t.Error("the next waiter was not asked")
		}
	})
}
