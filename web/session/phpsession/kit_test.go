package phpsession_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
)

var bg = context.Background()

const phpID = "0123456789abcdef0123456789abcdef"

// newLocker returns a Locker on a store in memory. It is closed when the test ends.
func newLocker(t testing.TB) *padlock.Locker {
	t.Helper()
	l := padlock.New(memstore.New())
	t.Cleanup(func() { l.Close(bg) })
	return l
}

// A browser sends requests without a network, so that one can be sent in the middle of another.
type browser struct {
	t      testing.TB
	m      *session.Manager
	cookie *http.Cookie
}

// newBrowser returns a browser with the cookie of the session that PHP has made.
func newBrowser(t testing.TB, m *session.Manager) *browser {
	return &browser{t, m, &http.Cookie{Name: phpsession.CookieName, Value: phpID}}
}

// twin returns a copy of the browser, with its present cookie.
func (b *browser) twin() *browser { c := *b; return &c }

// do sends a request whose handler is f, on a route with opts, and returns the status.
func (b *browser) do(f func(*session.Session), opts ...session.RouteOption) int {
	b.t.Helper()
	r := httptest.NewRequestWithContext(bg, "GET", "/", nil)
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	w := httptest.NewRecorder()
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(session.From(r.Context())) })
	b.m.With(opts...)(handler).ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.cookie = c; c.MaxAge < 0 {
			b.cookie = nil
		}
	}
	return w.Code
}

func (b *browser) status(want int, f func(*session.Session), opts ...session.RouteOption) {
	b.t.Helper()
	if got := b.do(f, opts...); got != want {
		b.t.Errorf("status %d, want %d", got, want)
	}
}

// b.ok sends a request and expects status 200.
func (b *browser) ok(f func(*session.Session), opts ...session.RouteOption) {
	b.t.Helper()
	b.status(http.StatusOK, f, opts...)
}

// has sends a request that checks the value of a key.
func has[T comparable](b *browser, key string, want T) {
	b.t.Helper()
	b.do(func(s *session.Session) {
		if got := get1[T](b.t, s, key); got != want {
			b.t.Errorf("%q is %v, want %v", key, got, want)
		}
	})
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func get1[T any](t testing.TB, s *session.Session, key string) T {
	t.Helper()
	v, err := session.Get[T](s, key)
	noError(t, err)
	return v
}
