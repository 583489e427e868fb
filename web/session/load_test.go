package session_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// start returns a client with a session on a server whose writers work in mode.
func start(t *testing.T, store sessionstore.Store, mode session.Mode, opts ...session.Option) *load.Client {
	t.Helper()
	// A test on a busy machine may take longer than a visitor waits.
	opts = append(opts, session.MaxWait(time.Minute))
	c := serve(t, load.Handler(newManager(t, store, opts...), mode))
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCrowdKeepsAll: many requests at once each set their own key, and no key is lost. This is the
// reason for the package.
func TestCrowdKeepsAll(t *testing.T) {
	t.Parallel()
	modes := map[string]session.Mode{"Delta": session.Delta, "Exclusive": session.Exclusive, "LastWriteWins": session.LastWriteWins}
	for name, mode := range modes {
		for store, open := range stores {
			t.Run(name+"/"+store, func(t *testing.T) {
				t.Parallel()
				c := start(t, open(), mode)
				for _, p := range []load.Plan{
					load.Set(load.CrowdSize, 25*time.Millisecond, 0), load.Set(load.CrowdSize, 0, 0), load.Set(load.CrowdSize, 5*time.Millisecond, time.Second/4),
				} {
					if err := c.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					load.CheckKept(t, c, p)
				}
			})
		}
	}
}

func TestCrowdCounts(t *testing.T) {
	t.Parallel()
	for store, open := range stores {
		t.Run("Exclusive adds all/"+store, func(t *testing.T) {
			t.Parallel()
			c := start(t, open(), session.Exclusive)
			load.CheckCount(t, c, load.Add(load.CrowdSize, time.Millisecond), false)
		})
		t.Run("Delta adds or refuses/"+store, func(t *testing.T) {
			t.Parallel()
			c := start(t, open(), session.Delta)
			load.CheckCount(t, c, load.Add(load.CrowdSize, 5*time.Millisecond), true)
		})
		t.Run("LastWriteWins loses/"+store, func(t *testing.T) {
			t.Parallel()
			c := start(t, open(), session.LastWriteWins)
			r := c.Run(t.Context(), load.Add(load.CrowdSize, 5*time.Millisecond))
			load.CheckAll(t, r, http.StatusOK)
			if n := must[int](t)(c.Value(t.Context(), "n")); n >= load.CrowdSize {
				t.Errorf("counted %d: the test above proves nothing", n)
			}
		})
		t.Run("Incr/"+store, func(t *testing.T) {
			t.Parallel()
			c := start(t, open(), session.Delta)
			load.CheckCount(t, c, load.Incr(load.CrowdSize), false)
		})
	}
}

// TestConflictRetried lets each handler run again until its write is saved.
func TestConflictRetried(t *testing.T) {
	t.Parallel()
	visits := load.CrowdSize / 3 // each may run again for each other one
	if server.IsThorough() {
		visits = load.CrowdSize
	}
	c := start(t, sessionstore.NewMemory(), session.Delta, session.RetryConflicts(10*load.CrowdSize))
	load.CheckCount(t, c, load.Add(visits, 0), false)
}

// TestLogoutHolds logs out while others are at work, 20 times: none of them
// brings the session back.
func TestLogoutHolds(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				m := newManager(t, open(), session.MaxWait(time.Minute))
				inside, goOn := make(chan bool), make(chan bool)
				mux := http.NewServeMux()
				mux.Handle("/", load.Handler(m))
				mux.Handle("/slow", m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					s := session.From(r.Context())
					session.Get[int](s, "started")
					inside <- true
					<-goOn
					s.Put("late", 1)
				})))
				c := serve(t, mux)
				noError(t, c.Start(t.Context()))
				load.CheckLogout(t, c, "/slow", inside, goOn)
			}
		})
	}
}

// TestExclusiveOneAtATime checks that handlers of one session do not overlap,
// and that those of two sessions do.
func TestExclusiveOneAtATime(t *testing.T) {
	t.Parallel()
	store := sessionstore.NewMemory()
	m := newManager(t, store, session.MaxWait(time.Minute))
	var inside atomic.Int32
	h := routes{"/": func(w http.ResponseWriter, r *http.Request) {
		s := session.From(r.Context())
		n, err := session.Get[int](s, "n")
		if err == nil && inside.Add(1) != 1 {
			safety.TwoHold(t, "two handlers of one session at once")
		}
		<-time.After(2 * time.Millisecond)
		s.Put("n", n+1)
		inside.Add(-1)
	}}
	c := serve(t, m.With(session.Exclusive)(h.behind(m)))
	getPage(t, c, "/")
	r := c.Run(t.Context(), load.Plan{Requests: 20, Path: func(int) string { return "/" }})
	load.CheckAll(t, r, http.StatusOK)
}
