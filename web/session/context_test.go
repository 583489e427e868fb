package session_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// contexts is a store that records the trace in the context of each call.
type contexts struct {
	sessionstore.Store
	seen []any
}

func (c *contexts) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	c.seen = append(c.seen, ctx.Value(traceKey{}))
	return c.Store.Load(ctx, key)
}

func (c *contexts) Commit(ctx context.Context, key string, ch sessionstore.Change) (sessionstore.Result, error) {
	c.seen = append(c.seen, ctx.Value(traceKey{}))
	return c.Store.Commit(ctx, key, ch)
}

// TestWhichContextCounts: the context given to From or WithContext loads the session, and the one
// given to a method is used by that method.
func TestWhichContextCounts(t *testing.T) {
	with := func(ctx context.Context, trace string) context.Context {
		return context.WithValue(ctx, traceKey{}, trace)
	}
	for name, c := range map[string]struct {
		use  func(ctx context.Context) error
		want string
	}{
		"From": {func(ctx context.Context) error {
			_, err := session.Get[int](session.From(with(ctx, "inner")), "k")
			return err
		}, "inner"},
		"WithContext": {func(ctx context.Context) error {
			_, err := session.Get[int](session.From(ctx).WithContext(with(ctx, "inner")), "k")
			return err
		}, "inner"},
		"method": {func(ctx context.Context) error {
			_, err := session.From(with(ctx, "inner")).Incr(with(ctx, "incr"), "n", 1)
			return err
		}, "incr incr"},
		"outer": {func(ctx context.Context) error {
			_, err := session.From(ctx).Has("k")
			return err
		}, "outer"},
	} {
		store := &contexts{Store: sessionstore.NewMemory()}
		b := newBrowser(t, newManager(t, store))
		b.putValue("k", 1)
		store.seen = nil
		b.ctx = with(bg, "outer")
		w := b.answer(func(_ http.ResponseWriter, r *http.Request) { noError(t, c.use(r.Context())) })
		var seen []string
		for _, s := range store.seen {
			text, _ := s.(string)
			seen = append(seen, text)
		}
		if got := strings.Join(seen, " "); w.Code != 200 || got != c.want {
			t.Errorf("%s: %d, the store saw %q, want %q", name, w.Code, got, c.want)
		}
	}
}

// TestInnerDeadline: a wait for the session's lock ends with the context given to From. On a busy
// machine the context may end before the lock is tried.
func TestInnerDeadline(t *testing.T) {
	b := newBrowser(t, newManager(t, sessionstore.NewMemory(), session.MaxWait(time.Hour)))
	b.putValue("k", 1)
	b.ok(func(s *session.Session) {
		get1[int](t, s, "k")
		b.twin().answer(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := session.Get[int](session.From(ctx), "k")
			if !errors.Is(err, session.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}, session.Exclusive)
	}, session.Exclusive)
}

// TestTwoManagers: each Manager has a session of its own in one request.
func TestTwoManagers(t *testing.T) {
	shop := newManager(t, sessionstore.NewMemory(), session.Cookie{Name: "shop", Insecure: true})
	admin := newManager(t, sessionstore.NewMemory(), session.Cookie{Name: "admin", Insecure: true})
	var stores [2]string
	h := shop.Middleware(admin.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noError(t, shop.From(r.Context()).Put("who", "visitor"))
		noError(t, admin.From(r.Context()).Put("who", "operator"))
		stores[0] = get1[string](t, session.From(r.Context()), "who")
		// This is a route of the outer Manager. It has the same session as above, which is now the
		// innermost.
		shop.With(session.LastWriteWins)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			stores[1] = get1[string](t, session.From(r.Context()), "who")
			if who := get1[string](t, admin.From(r.Context()), "who"); who != "operator" {
				t.Errorf("admin has %q", who)
			}
		})).ServeHTTP(w, r)
	})))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if stores != [2]string{"operator", "visitor"} {
		t.Errorf("From returned the sessions of %q", stores)
	}
	if cookies := w.Result().Cookies(); w.Code != 200 || len(cookies) != 2 {
		t.Errorf("%d %v", w.Code, cookies)
	}
	if other := newManager(t, sessionstore.NewMemory()).From(t.Context()); !errors.Is(other.Put("k", 1), session.ErrNoSession) {
		t.Error("a Manager without Middleware has a session")
	}
}

// TestRetryConflictsWithBody: a request with a body runs again only if its body can be read again.
func TestRetryConflictsWithBody(t *testing.T) {
	for _, again := range []bool{false, true} {
		b := newBrowser(t, newManager(t, sessionstore.NewMemory(), session.RetryConflicts(1)))
		b.putValue("n", 1)
		var bodies []string
		h := b.m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			s := session.From(r.Context())
			n := get1[int](t, s, "n")
			if len(bodies) == 1 {
				noError(t, session.Interfere(s, "n", 10))
			}
			noError(t, s.Put("n", n+1))
		}))
		r := httptest.NewRequest("POST", "/", strings.NewReader("amount=5"))
		r.AddCookie(b.cookie)
		if again {
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("amount=5"))), nil }
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := "409 amount=5"
		if again {
			want = "200 amount=5 amount=5"
		}
		if got := strings.Join(append([]string{strconv.Itoa(w.Code)}, bodies...), " "); got != want {
			t.Errorf("GetBody %v: %q, want %q", again, got, want)
		}
	}
}

// TestModesHaveNames: no value of Mode panics.
func TestModesHaveNames(t *testing.T) {
	if session.Exclusive.String() != "Exclusive" || session.Mode(200).String() != "Mode(200)" {
		t.Error(session.Exclusive, session.Mode(200))
	}
}
