package advisory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/storekit/advisory"
)

type counterStore struct {
	advisory.SharedStore[*counted]
	inner *advisory.Store[*counted]
	srv   *counting
}

func openCounter(d *counter) counterStore {
	s := advisory.New(d, advisory.Config{Guarantees: driver.Guarantees{
		Store: "fake-advisory", Bound: driver.BoundToConnection, Fence: driver.FenceDurable,
	}})
	return counterStore{advisory.Shared(s), s, d.srv}
}

// A crowd knows who holds what.
type crowd struct {
	mu      sync.Mutex
	holders map[string][]*member
	wrong   map[string]int // what was wrong, and how often
}

// A member is a hold. Its name and its token do not change; crowd.mu guards the rest.
type member struct {
	driver.Request
	bound context.Context
}

func (w *crowd) report(what string) { w.wrong[what]++ }

// note records a grant or a change of mode, and checks that nobody is in the way.
func (w *crowd) note(m *member, shared bool, bound context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.Shared, m.bound = shared, bound
	others := slices.DeleteFunc(w.holders[m.Name], func(o *member) bool { return o == m || o.bound.Err() != nil })
	for _, o := range others {
		if bound.Err() == nil && !(o.Shared && shared) {
			w.report(safety.ErrTwoHold("shared %v and %v", shared, o.Shared).Error())
		}
	}
	w.holders[m.Name] = append(others, m)
}

func (w *crowd) remove(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders[m.Name] = slices.DeleteFunc(w.holders[m.Name], func(o *member) bool { return o == m })
}

// verify checks that the session of a hold has the lock, unless its connection has ended.
func (w *crowd) verify(srv *counting, m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if m.bound.Err() != nil {
		return
	}
	for c, n := range srv.locks[m.Name] {
		if c.bound == m.bound && n[mode(m.Shared)] > 0 {
			return
		}
	}
	w.report(fmt.Sprintf("the session of a hold, shared %v, does not have the lock", m.Shared))
}

// Many goroutines of two processes take, convert, verify and release three locks, with contexts
// that end, on a server that refuses statements and cuts connections. No two holders conflict, the
// session of each hold has the lock, no hold ends without a reason, and at the end nothing is left
// in the server or in the stores.
func TestTorture(t *testing.T) {
	t.Parallel()
	srv := newCounting()
	srv.faulty.Store(true)
	w := &crowd{holders: map[string][]*member{}, wrong: map[string]int{}}
	stores := []counterStore{openCounter(&counter{srv: srv}), openCounter(&counter{srv: srv})}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			for ctx.Err() == nil {
				w.act(ctx, stores[i%2])
			}
		})
	}
	all.Wait()
	srv.faulty.Store(false)
	for _, s := range stores {
		for end := time.Now().Add(time.Minute); advisory.Leftovers(s.inner) != "" && time.Now().Before(end); {
			<-time.After(10 * time.Millisecond) // reservations lapse
		}
		if left := advisory.Leftovers(s.inner); left != "" {
			w.report(left)
		}
	}
	srv.mu.Lock()
	for key, sessions := range srv.locks {
		for c, n := range sessions {
			if !c.left {
				w.report(fmt.Sprintf("the server still has %q: %v", key, n))
			}
		}
	}
	for _, what := range srv.wrong {
		w.report(what)
	}
	srv.mu.Unlock()
	for _, s := range stores {
		s.Close()
	}
	for what, n := range w.wrong {
		t.Errorf("%d times: %s", n, what)
	}
}

// act takes a lock in one of several ways, works with it, and releases it.
func (w *crowd) act(ctx context.Context, s counterStore) {
	limit := 50 * time.Millisecond
	if rand.N(5) == 0 {
		limit = rand.N(2 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := request([]string{"a", "b", "c"}[rand.N(3)])
	r.Shared = rand.N(5) > 1
	g, err := s.Acquire(ctx, r)
	if errors.Is(err, driver.ErrUncertain) && rand.N(2) == 0 {
		g, err = s.Acquire(ctx, r)
	}
	if errors.Is(err, driver.ErrHeld) && rand.N(4) == 0 {
		r.Token = request("").Token
		g, err = s.Wait(ctx, r, rand.N(4) > 0)
		if err == nil && g.TTL == 0 {
			err = driver.ErrHeld
		}
		if err == nil && rand.N(20) > 0 {
			g, err = s.Acquire(ctx, r)
		} else if err == nil {
			<-time.After(rand.N(500 * time.Millisecond)) // the reservation may lapse
			err = driver.ErrLost
		}
	}
	defer s.releaseSurely(r)
	if err != nil {
		return
	}
	m := &member{Request: r}
	w.note(m, r.Shared, g.Bound)
	defer w.remove(m)
	for range rand.N(4) {
		pause()
		w.verify(s.srv, m)
		if rand.N(2) == 0 {
			s.Extend(ctx, r.Name, r.Token.Text(), 0)
		} else {
			w.convert(s, m, g.Bound)
		}
	}
	w.verify(s.srv, m)
}

// convert changes the mode of a hold. After a refused demotion, nobody asks for the mode.
func (w *crowd) convert(s counterStore, m *member, bound context.Context) {
	r := m.Request
	r.Shared = !r.Shared
	if r.Shared {
		w.note(m, true, bound)
	}
	_, err := s.Convert(context.Background(), r)
	switch {
	case err == nil:
		w.note(m, r.Shared, bound)
	case r.Shared:
		over, cancel := context.WithCancel(bound)
		cancel()
		w.note(m, true, over)
	}
}

// releaseSurely repeats a release until its outcome is known.
func (s counterStore) releaseSurely(r driver.Request) {
	for range 1000 {
		if _, err := s.Release(context.Background(), r.Name, r.Token.Text(), 0); err == nil {
			return
		}
	}
}
