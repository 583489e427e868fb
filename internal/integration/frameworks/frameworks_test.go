package frameworks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// stored returns what the browser's session has under a key, read outside of every framework.
func (b *browser) stored(m *session.Manager, key string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url, nil)
	noError(b.t, err)
	for _, c := range b.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	value := "no session"
	m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if value, err = session.Get[string](session.From(r.Context()), key); err != nil {
			b.t.Error(err)
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	return value
}

func TestSessionGoesOn(t *testing.T) {
	inEach(t, func(t *testing.T, f framework) {
		b := open(t, f.with(newManager(t, sessionstore.NewMemory())))
		for i := 1; i <= 3; i++ {
			if got := b.must("/visit", nil); got != fmt.Sprint(i) {
				t.Errorf("visit %d is number %q", i, got)
			}
		}
	})
}

func TestCrowdKeepsAll(t *testing.T) {
	inEach(t, func(t *testing.T, f framework) {
		m := newManager(t, sessionstore.NewMemory())
		b := open(t, f.with(m))
		b.must("/visit", nil)
		const n = 30
		b.crowd(n, func(i int) string { return fmt.Sprint("/note/", i) })
		for i := range n {
			if got := b.stored(m, fmt.Sprint(i)); got != fmt.Sprint(i) {
				t.Errorf("note %d is %q", i, got)
			}
		}
	})
}

// slow is a store whose sessions take a while to load, so that requests that come at once have all
// loaded the session before the first of them saves it.
type slow struct{ sessionstore.Store }

func (s slow) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	rec, err := s.Store.Load(ctx, key)
	<-time.After(100 * time.Millisecond)
	return rec, err
}

// TestExclusiveRoute: a route with the session's lock counts every request of a crowd.
func TestExclusiveRoute(t *testing.T) {
	inEach(t, func(t *testing.T, f framework) {
		b := open(t, f.with(newManager(t, slow{sessionstore.NewMemory()})))
		b.must("/visit", nil)
		const n = 5
		b.crowd(n, func(int) string { return "/order" })
		if got := b.must("/order", nil); got != fmt.Sprint(n+1) {
			t.Errorf("%d orders were counted as %s", n+1, got)
		}
	})
}

// TestPanicSavesNothing: a recovery handler inside of the session answers, and the session drops
// what the handler had written.
func TestPanicSavesNothing(t *testing.T) {
	inEach(t, func(t *testing.T, f framework) {
		m := newManager(t, sessionstore.NewMemory())
		b := open(t, f.with(m))
		b.must("/visit", nil)
		if status, text := b.post("/panic", nil); status != http.StatusInternalServerError {
			t.Errorf("the answer is %d %s", status, text)
		}
		if got := b.stored(m, "half"); got != "" {
			t.Errorf("the session has %q", got)
		}
		if got := b.must("/visit", nil); got != "2" {
			t.Errorf("then visit 2 is number %s", got)
		}
	})
}

// refusing is a store that saves nothing while refuses is set.
type refusing struct {
	sessionstore.Store
	refuses atomic.Bool
}

func (s *refusing) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if s.refuses.Load() {
		return sessionstore.Result{}, sessionstore.ErrUnavailable
	}
	return s.Store.Commit(ctx, key, c)
}

// TestNo200WithoutSaving: the answer of the framework is replaced if the session cannot be saved.
func TestNo200WithoutSaving(t *testing.T) {
	inEach(t, func(t *testing.T, f framework) {
		store := &refusing{Store: sessionstore.NewMemory()}
		b := open(t, f.with(newManager(t, store)))
		b.must("/visit", nil)
		store.refuses.Store(true)
		for _, path := range []string{"/visit", "/note/x", "/order"} {
			if status, text := b.post(path, map[string][]string{"text": {"y"}}); status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		store.refuses.Store(false)
		if got := b.must("/visit", nil); got != "2" {
			t.Errorf("then visit 2 is number %s", got)
		}
	})
}

// events remembers the events of a Manager that lost something.
type events struct{ lost atomic.Int64 }

func (e *events) option() session.Option {
	return session.OnEvent(func(_ context.Context, ev session.Event) {
		if ev.Kind == session.EventLost && ev.Err != nil && !errors.Is(ev.Err, session.ErrUnavailable) {
			e.lost.Add(1)
		}
	})
}
