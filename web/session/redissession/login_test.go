package redissession_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// TestDoubleLogin has visitors click twice on "log in" while other requests write, without a
// Locker. Both logins succeed, and no write that got a 200 may be lost.
func TestDoubleLogin(t *testing.T) {
	t.Parallel()
	raw := dial(t, clientOption(startRedis(t).Addr()))
	for store, open := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			m, err := session.New(open(newRedis(t, raw)), plain)
			noError(t, err)
			mux := http.NewServeMux()
			mux.Handle("/", load.Handler(m))
			mux.Handle("/login", m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := session.From(r.Context())
				if err := s.Regenerate(r.Context()); err != nil {
					w.WriteHeader(session.Status(err))
					return
				}
				noError(t, s.Put("user", 1))
			})))
			c := serve(t, mux)
			saved, rounds := 0, 15
			if server.IsThorough() {
				rounds = 60
			}
			for range rounds {
				saved += doubleLogin(t, c)
			}
			t.Logf("%d of %d writes during a login were saved, the others refused", saved, rounds*5)
		})
	}
}

// doubleLogin returns how many writes during the login got a 200.
func doubleLogin(t *testing.T, c *load.Client) int {
	t.Helper()
	c.Cookie = nil
	noError(t, c.Start(t.Context()))
	paths := []string{"/login", "/login"}
	for i := range 5 {
		paths = append(paths, fmt.Sprintf("/set?key=k%d&work=0s", i))
	}
	answers := make([]load.Answer, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() {
			var err error
			if answers[i], err = c.Get(t.Context(), i, path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	logins := slices.DeleteFunc(slices.Clone(answers[:2]), func(a load.Answer) bool { return a.Cookie == nil })
	if len(logins) == 0 || answers[0].Status != http.StatusOK || answers[1].Status != http.StatusOK {
		t.Fatalf("both logins must answer 200, and one with a cookie: %v", answers[:2])
	}
	want := []string{"user"}
	for i, a := range answers[2:] {
		if a.Status == http.StatusOK {
			want = append(want, fmt.Sprint("k", i))
		}
	}
	// A login that began after the other one had moved the session has an empty session of its own.
	var have []string
	for _, login := range logins {
		c.Cookie = login.Cookie
		a, err := c.Get(t.Context(), 0, "/keys")
		noError(t, err)
		keys := strings.Fields(a.Body)
		if !slices.Contains(keys, "user") {
			t.Errorf("a login answered 200, and its session has only %q", keys)
		}
		have = append(have, keys...)
	}
	for _, key := range want {
		if !slices.Contains(have, key) {
			t.Errorf("the write of %s got a 200, but the session has only %q", key, have)
		}
	}
	return len(want) - 1
}
