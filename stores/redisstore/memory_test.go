package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// layouts are all layouts, each with names of its own.
var layouts = map[string][]redisstore.Option{
	"set":                   {redisstore.Prefix("1:")},
	"set, only padlock":     {redisstore.Prefix("2:"), redisstore.OnlyPadlock()},
	"set, foreign":          {redisstore.Prefix("3:"), redisstore.Foreign()},
	"set, no fences":        {redisstore.Prefix("4:"), redisstore.NoFences()},
	"string":                {redisstore.Prefix("5:"), redisstore.PlainStrings()},
	"string, only padlock":  {redisstore.Prefix("6:"), redisstore.PlainStrings(), redisstore.OnlyPadlock()},
	"string, foreign":       {redisstore.Prefix("7:"), redisstore.PlainStrings(), redisstore.Foreign()},
	"string, no fences":     {redisstore.Prefix("8:"), redisstore.PlainStrings(), redisstore.NoFences()},
	"set, foreign, padlock": {redisstore.Prefix("9:"), redisstore.Foreign(), redisstore.OnlyPadlock()},
}

// withMemory starts a server whose memory can be used up.
func withMemory(t *testing.T) (srv *server.Server, full func(yes bool)) {
	srv = server.Redis(t, server.RedisOptions{Args: []string{"--maxmemory", "50mb", "--maxmemory-policy", "noeviction"}})
	return srv, func(yes bool) {
		if yes {
			ask(t, srv, "CONFIG", "SET", "maxmemory", "1")
		} else {
			ask(t, srv, "CONFIG", "SET", "maxmemory", "50mb")
		}
	}
}

// TestMemory fills a server's memory while locks are held: no new lock is granted, and all requests
// of holders work.
func TestMemory(t *testing.T) {
	t.Parallel()
	for name, opts := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, full := withMemory(t)
			m := &memory{t, opened(t, srv.Addr(), opts...), full}
			m.refuses()
			m.keeps()
			m.handsOver()
			if m.s.Guarantees().Shared {
				m.converts()
			}
			for _, keep := range []time.Duration{0, time.Minute} {
				m.endsBeside(keep)
			}
		})
	}
}

type memory struct {
	t    *testing.T
	s    *redisstore.Store
	full func(bool)
}

func (m *memory) must(what string, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Errorf("%s without memory: %v", what, err)
	}
}

// refuses checks, for each state of a name, that no lock is granted.
func (m *memory) refuses() {
	m.t.Helper()
	used := request("used")
	take(m.t, m.s, used)
	free(m.t, m.s, used)
	m.full(true)
	defer m.full(false)
	for _, name := range []string{"used", "new"} {
		r := request(name)
		_, err := m.s.Acquire(m.t.Context(), r)
		wantIs(m.t, err, driver.ErrUnavailable, "Acquire without memory")
		if !strings.Contains(err.Error(), "maxmemory") {
			m.t.Errorf("the error does not say what to do: %v", err)
		}
		if out, err := m.s.Release(m.t.Context(), name, r.Token.Text(), 0); err != nil || out == driver.OutcomeReleased {
			m.t.Errorf("Release of a refused request: %v, %v", out, err)
		}
	}
}

// keeps checks that a hold can be renewed, verified, repeated and replaced.
func (m *memory) keeps() {
	m.t.Helper()
	ctx, r := m.t.Context(), request("kept")
	g := take(m.t, m.s, r)
	m.full(true)
	defer m.full(false)
	_, err := m.s.Extend(ctx, r.Name, r.Token.Text(), 55*time.Second)
	m.must("Extend", err)
	_, err = m.s.Extend(ctx, r.Name, r.Token.Text(), 0)
	m.must("Extend that verifies", err)
	_, err = m.s.Acquire(ctx, request("kept"))
	wantIs(m.t, err, driver.ErrHeld, "Acquire by another one")
	again, err := m.s.Acquire(ctx, r)
	m.must("Acquire by the holder", err)
	if again.Fence != g.Fence {
		m.t.Errorf("the fence was %d and is %d", g.Fence, again.Fence)
	}
	m.must("RaiseFence", m.s.RaiseFence(ctx, r.Name, r.Token.Text(), g.Fence+1000))
	swap := request("kept")
	swap.Replaces = r.Token
	_, err = m.s.Acquire(ctx, swap)
	m.must("Acquire that replaces", err)
	_, err = m.s.Extend(ctx, r.Name, r.Token.Text(), 55*time.Second)
	wantIs(m.t, err, driver.ErrLost, "Extend of a replaced token")
	free(m.t, m.s, swap)
}

// handsOver checks that a hold is handed over to a waiter, in the queue and within the process.
func (m *memory) handsOver() {
	m.t.Helper()
	r := request("handed over")
	take(m.t, m.s, r)
	w := waits(m.t, m.s, r.Name)
	m.full(true)
	defer m.full(false)
	free(m.t, m.s, r)
	w.got()
	next := request(r.Name)
	out, g, err := m.s.Pass(m.t.Context(), w.r.Token.Text(), next)
	if strings.Contains(m.t.Name(), "foreign") {
		free(m.t, m.s, w.r)
		return
	}
	m.must("Pass", err)
	if out != driver.OutcomeReleased || g.TTL == 0 {
		m.t.Errorf("Pass without memory: %v, %+v", out, g)
	}
	free(m.t, m.s, next)
}

// converts demotes and promotes, and has readers end their holds.
func (m *memory) converts() {
	m.t.Helper()
	ctx, r := m.t.Context(), request("converted")
	take(m.t, m.s, r)
	m.full(true)
	down := reading(r)
	_, err := m.s.Convert(ctx, down)
	m.must("demotion", err)
	_, err = m.s.Extend(ctx, r.Name, r.Token.Text(), 55*time.Second)
	m.must("Extend of a reader", err)
	_, err = m.s.Convert(ctx, r)
	m.must("promotion", err)
	_, err = m.s.Convert(ctx, down)
	m.must("demotion", err)
	m.full(false)
	other := reading(request("converted"))
	take(m.t, m.s, other)
	m.full(true)
	defer m.full(false)
	_, err = m.s.Convert(ctx, r)
	wantIs(m.t, err, driver.ErrHeld, "promotion with another reader")
	woken := make(chan error, 1)
	go func() { _, err := m.s.Wait(ctx, r, false); woken <- err }()
	free(m.t, m.s, other)
	m.must("waiting to be promoted", <-woken)
	_, err = m.s.Convert(ctx, r)
	m.must("promotion", err)
	free(m.t, m.s, r)
}

// endsBeside checks that a hold with waiters can be released, with a cool-down or without, and that
// one can be broken.
func (m *memory) endsBeside(keep time.Duration) {
	m.t.Helper()
	r := request("ended " + keep.String())
	take(m.t, m.s, r)
	m.full(true)
	defer m.full(false)
	if out, err := m.s.Release(m.t.Context(), r.Name, r.Token.Text(), keep); err != nil || out != driver.OutcomeReleased {
		m.t.Errorf("Release with a cool-down of %v without memory: %v, %v", keep, out, err)
	}
	st, err := m.s.Inspect(m.t.Context(), r.Name)
	m.must("Inspect", err)
	if cools := len(st.Holds) == 1 && st.Holds[0].Cooling; cools != (keep > 0) {
		m.t.Errorf("after a Release with a cool-down of %v: %+v", keep, st.Holds)
	}
	_, err = m.s.Break(m.t.Context(), r.Name, st.Fence)
	m.must("Break", err)
}

// TestMemoryIsShortFor holds two locks while the server has no memory. The Locker renews each of
// them twice, and both can be extended and released.
func TestMemoryIsShortFor(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for name, opts := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, full := withMemory(t)
			renewed := make(chan padlock.Event, 100)
			l := padlock.New(opened(t, srv.Addr(), opts...), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
				if e.Kind == padlock.EventRenewed {
					renewed <- e
				}
			})))
			defer l.Close(context.Background())
			var locks []*padlock.Lock
			for _, job := range []string{"job", "other job"} {
				lock, err := l.Acquire(t.Context(), job, padlock.TTL(8*time.Second)) // renewed after 2.7 s
				if err != nil {
					t.Fatal(err)
				}
				locks = append(locks, lock)
			}
			full(true)
			defer full(false)
			for seen := map[string]int{}; seen["job"] < 2 || seen["other job"] < 2; {
				select {
				case e := <-renewed:
					seen[e.Name]++
				case <-locks[0].Context().Done():
					t.Fatalf("the lock ended while the server had no memory: %v", context.Cause(locks[0].Context()))
				case <-locks[1].Context().Done():
					t.Fatalf("the other lock ended while the server had no memory: %v", context.Cause(locks[1].Context()))
				}
			}
			for _, lock := range locks {
				if err := lock.Extend(t.Context(), 55*time.Second); err != nil {
					t.Errorf("Extend while the server has no memory: %v", err)
				}
				if err := lock.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
}
