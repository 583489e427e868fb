package session_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// newLocker returns a Locker on a store in memory. It is closed when the test ends.
func newLocker(t testing.TB) *padlock.Locker {
	t.Helper()
	l := padlock.New(memstore.New())
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// plain makes the cookie usable over httptest's plain HTTP.
var plain = session.Cookie{Insecure: true}

// newManager returns a Manager whose requests wait longer for a lock than a slow machine stands
// still.
func newManager(t testing.TB, store sessionstore.Store, opts ...session.Option) *session.Manager {
	t.Helper()
	m, err := session.New(store, append([]session.Option{session.Locker(newLocker(t)), plain, session.MaxWait(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve starts a real server with the handler h, and returns a client of it.
func serve(t testing.TB, h http.Handler) *load.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	c := load.NewClient(srv.URL, 200)
	t.Cleanup(func() { c.Close(); srv.Close() })
	return c
}

// routes are the handlers of a server, by pattern.
type routes map[string]http.HandlerFunc

func (r routes) behind(m *session.Manager) http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range r {
		mux.HandleFunc(pattern, h)
	}
	return m.Middleware(mux)
}

// getPage sends a request and takes over the cookie that comes back.
func getPage(t testing.TB, c *load.Client, path string) load.Answer {
	t.Helper()
	a, err := c.Get(context.Background(), 0, path)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	if a.Cookie != nil {
		c.Cookie = a.Cookie
	}
	return a
}

// wantPage sends a request and checks the answer.
func wantPage(t testing.TB, c *load.Client, path string, status int, body string) {
	t.Helper()
	if a := getPage(t, c, path); a.Status != status || a.Body != body {
		t.Errorf("GET %s: %d %q, want %d %q", path, a.Status, a.Body, status, body)
	}
}

// counting counts the calls of a store.
type counting struct {
	sessionstore.Store
	mu                             sync.Mutex
	loads, commits, touches, drops int
}

func (c *counting) add(n *int) { c.mu.Lock(); *n++; c.mu.Unlock() }

func (c *counting) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loads + c.commits + c.touches + c.drops
}

func (c *counting) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	c.add(&c.loads)
	return c.Store.Load(ctx, key)
}

func (c *counting) Commit(ctx context.Context, key string, ch sessionstore.Change) (sessionstore.Result, error) {
	c.add(&c.commits)
	return c.Store.Commit(ctx, key, ch)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		return v
	}
}
