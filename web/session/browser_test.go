package session_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/padlock-go/padlock/web/session"
)

// A browser sends requests without a network, so that one can be sent in the
// middle of another.
type browser struct {
	t      testing.TB
	m      *session.Manager
	cookie *http.Cookie
	ctx    context.Context
}

func newBrowser(t testing.TB, m *session.Manager) *browser {
	return &browser{t: t, m: m, ctx: context.Background()}
}

// twin returns a copy of the browser, with its present cookie.
func (b *browser) twin() *browser { c := *b; return &c }

// do sends a request whose handler is f, on a route with opts, and returns the
// status.
func (b *browser) do(f func(*session.Session), opts ...session.RouteOption) int {
	return b.answer(func(_ http.ResponseWriter, r *http.Request) { f(session.From(r.Context())) }, opts...).Code
}

func (b *browser) answer(h http.HandlerFunc, opts ...session.RouteOption) *httptest.ResponseRecorder {
	if b.t != nil {
		b.t.Helper()
	}
	r := httptest.NewRequestWithContext(b.ctx, "GET", "/", nil)
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	w := httptest.NewRecorder()
	b.m.With(opts...)(h).ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.cookie = c; c.MaxAge < 0 {
			b.cookie = nil
		}
	}
	return w
}

// b.ok sends a request and expects status 200.
func (b *browser) ok(f func(*session.Session), opts ...session.RouteOption) {
	b.t.Helper()
	b.status(http.StatusOK, f, opts...)
}

func (b *browser) status(want int, f func(*session.Session), opts ...session.RouteOption) {
	b.t.Helper()
	if got := b.do(f, opts...); got != want {
		b.t.Errorf("status %d, want %d", got, want)
	}
}

// b.putValue sends a request that puts a value.
func (b *browser) putValue(key string, v any) {
	b.t.Helper()
	b.ok(func(s *session.Session) { noError(b.t, s.Put(key, v)) })
}

// has sends a request that checks the value of a key.
func has[T comparable](b *browser, key string, want T) {
	b.t.Helper()
	b.do(func(s *session.Session) {
		if got, err := session.Get[T](s, key); got != want || err != nil {
			b.t.Errorf("%q is %v, %v, want %v", key, got, err, want)
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
