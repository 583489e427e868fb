package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// TestRefusedPut: a handler overlooks that a Put failed. The answer is not 200, and none of the
// request's writes are saved.
func TestRefusedPut(t *testing.T) {
	for name, put := range map[string]func(s *session.Session) error{
		"too large":  func(s *session.Session) error { return s.Put("big", strings.Repeat("x", 2000)) },
		"no key":     func(s *session.Session) error { return s.Put("", 1) },
		"long key":   func(s *session.Session) error { return s.Put(strings.Repeat("k", session.MaxKey+1), 1) },
		"codec":      func(s *session.Session) error { return s.Put("f", func() {}) },
		"bad delete": func(s *session.Session) error { return s.Delete("") },
		"bad incr":   func(s *session.Session) error { _, err := s.Incr(bg, "", 1); return err },
		"flash":      func(s *session.Session) error { return s.Flash("f", func() {}) },
		"incr no room": func(s *session.Session) error {
			s.Put("x", strings.Repeat("x", 970))
			_, err := s.Incr(bg, "counter:of:something", 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, b *browser) {
				b.putValue("k", 1)
				b.status(503, func(s *session.Session) {
					s.Put("other", 2)
					if put(s) == nil {
						t.Error("it was accepted")
					}
				})
				has(b, "other", 0)
				b.ok(func(s *session.Session) { // the handler can ignore the refusal
					s.Put("other", 2)
					put(s)
					s.IgnoreRefused()
				})
				has(b, "other", 2)
				w := b.answer(func(w http.ResponseWriter, r *http.Request) { // or write an error answer
					put(session.From(r.Context()))
					http.Error(w, "mine", http.StatusUnprocessableEntity)
				})
				if w.Code != http.StatusUnprocessableEntity {
					t.Errorf("%d", w.Code)
				}
			}, session.MaxSize(1000))
		})
	}
}

// TestMaxSizeHoldsForAll: requests at the same time do not exceed MaxSize together, MaxSize holds
// for Incr too, and a session that is too large can be made smaller.
func TestMaxSizeHoldsForAll(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		size := func() (n int) {
			b.ok(func(s *session.Session) {
				for _, key := range must[[]string](t)(s.Keys()) {
					n += len(key) + len(get1[json.RawMessage](t, s, key))
				}
			})
			return n
		}
		b.putValue("k", 1)
		var wg, read sync.WaitGroup
		read.Add(20)
		for i := range 20 {
			twin := b.twin()
			wg.Go(func() {
				twin.do(func(s *session.Session) {
					s.Has("k")
					read.Done()
					read.Wait()
					s.Put(fmt.Sprint("key", i), strings.Repeat("x", 400))
				})
			})
		}
		wg.Wait()
		if n := size(); n > 1000 || n < 800 {
			t.Errorf("%d bytes after 20 Puts at once", n)
		}
		refused := 0
		for i := range 50 {
			b.do(func(s *session.Session) {
				if _, err := s.Incr(bg, fmt.Sprint("counter of something ", i), 1); errors.Is(err, session.ErrTooLarge) {
					refused++
				}
			})
		}
		if n := size(); n > 1000 || refused < 40 {
			t.Errorf("%d bytes after 50 Incr, %d were refused", n, refused)
		}
		small := *b
		small.m = newManager(t, session.StoreOf(b.m), session.MaxSize(500))
		small.ok(func(s *session.Session) { noError(t, s.Put(firstLong(t, s), "short")) })
		small.status(503, func(s *session.Session) { s.Put("more", strings.Repeat("x", 300)) })
		small.ok(func(s *session.Session) { noError(t, s.Delete("k")) })
	}, session.MaxSize(1000))
}

func firstLong(t *testing.T, s *session.Session) string {
	for _, key := range must[[]string](t)(s.Keys()) {
		if len(get1[json.RawMessage](t, s, key)) > 300 {
			return key
		}
	}
	t.Error("there is no long value")
	return "none"
}

// TestDeleteMakesNoSession where there is none.
func TestDeleteMakesNoSession(t *testing.T) {
	store := &counting{Store: sessionstore.NewMemory()}
	b := newBrowser(t, newManager(t, store))
	b.ok(func(s *session.Session) { noError(t, s.Delete("filter")) })
	b.ok(func(s *session.Session) { noError(t, s.Put("filter", 1)); noError(t, s.Delete("filter")) })
	if b.cookie != nil || store.total() != 0 {
		t.Errorf("cookie %v, %d calls", b.cookie, store.total())
	}
}

// growth measures f with many keys and with eight times as many, and returns the ratio of the two
// times. The times are those of the processor, because other processes interrupt a long run and not
// a short one. The ratio is 8 if the time is linear, and 64 if it is quadratic. With a few hundred
// keys, a key costs a sixth of what it costs with 6,400, so a ratio to them says nothing.
func growth(f func(keys int) time.Duration) float64 {
	const keys, times = 6400, 8
	short := f(keys)
	for range 4 {
		short = min(short, f(keys))
	}
	return float64(f(times*keys)) / float64(short)
}

// TestManyKeysCostLinearTime: visitors may choose keys ("viewed:"+id).
func TestManyKeysCostLinearTime(t *testing.T) {
	server.Thorough(t)
	put := func(n int) func(*session.Session) {
		return func(s *session.Session) { eachKey(n, func(k string) { noError(t, s.Put(k, 1)) }) }
	}
	for what, f := range map[string]func(n int) func(*session.Session){
		"put":        put,
		"read":       func(int) func(*session.Session) { return func(s *session.Session) { s.Keys() } },
		"regenerate": func(int) func(*session.Session) { return func(s *session.Session) { noError(t, s.Regenerate(bg)) } },
		"delete": func(n int) func(*session.Session) {
			return func(s *session.Session) {
				eachKey(n, func(k string) { noError(t, s.Delete(k)) })
				noError(t, s.Put("left", 1))
				noError(t, s.Commit(bg))
				s.Keys()
			}
		},
	} {
		for name, open := range stores {
			m, err := session.New(open(), plain)
			noError(t, err)
			g := growth(func(n int) time.Duration {
				b := newBrowser(t, m)
				b.ok(put(n))
				start := cpuTime()
				b.ok(f(n))
				return cpuTime() - start
			})
			if g > maxGrowth {
				t.Errorf("%s in %s: 8 times the keys take %.0f times as long", what, name, g)
			}
			t.Logf("%s in %s: %.0f", what, name, g)
		}
	}
}

func eachKey(n int, f func(key string)) {
	for i := range n {
		f(fmt.Sprintf("k%05d", i))
	}
}

// TestMemoryIsBounded: clients that keep no cookie do not fill the memory, and
// sessions that exist are served meanwhile.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sessionstore.NewMemory(sessionstore.MaxSessions(100))
		m, err := session.New(store, plain, session.IdleTimeout(time.Minute))
		noError(t, err)
		b := newBrowser(t, m)
		b.putValue("k", 1)
		for i := range 150 {
			status := newBrowser(t, m).do(func(s *session.Session) { s.Put("k", 1) })
			if want := 200; i >= 99 && status != 503 || i < 99 && status != want {
				t.Fatalf("number %d: %d", i, status)
			}
		}
		b.putValue("k", 2)
		has(b, "k", 2)
		if n := store.Len(); n != 100 {
			t.Errorf("%d sessions", n)
		}
		b.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
		newBrowser(t, m).putValue("k", 1) // there is room for one more session
		<-time.After(2 * time.Minute)
		newBrowser(t, m).putValue("k", 1)
		if n := store.Len(); n != 1 {
			t.Errorf("%d sessions after all others expired", n)
		}
	})
}

// TestZeroValues: a zero value or a missing argument works, or is refused at once.
func TestZeroValues(t *testing.T) {
	b := newBrowser(t, newManager(t, &sessionstore.Memory{}))
	b.putValue("k", 1)
	has(b, "k", 1)
	if n := new(sessionstore.Memory).Len(); n != 0 {
		t.Error(n)
	}
	blobs := sessiontest.NewBlobs()
	locker := newLocker(t)
	for name, f := range map[string]func() (*session.Manager, error){
		"NewPHP without locks": func() (*session.Manager, error) { return phpsession.New(blobs, nil, phpsession.Config{}) },
		"NewPHP without blobs": func() (*session.Manager, error) { return phpsession.New(nil, locker, phpsession.Config{}) },
		"unknown mode": func() (*session.Manager, error) {
			return session.New(sessionstore.NewMemory(), session.LastWriteWins+1)
		},
		"PHP and Persist": func() (*session.Manager, error) {
			return phpsession.New(blobs, locker, phpsession.Config{}, session.Cookie{Persist: true})
		},
		"nil option": func() (*session.Manager, error) { return session.New(sessionstore.NewMemory(), nil) },
		"nil Locker": func() (*session.Manager, error) { return session.New(sessionstore.NewMemory(), session.Locker(nil)) },
		"nil Codec": func() (*session.Manager, error) {
			return session.New(sessionstore.NewMemory(), session.ValueCodec(nil))
		},
		"no end": func() (*session.Manager, error) {
			return session.New(sessionstore.NewMemory(), session.IdleTimeout(0), session.Lifetime(0))
		},
		"Persist without Lifetime": func() (*session.Manager, error) {
			return session.New(sessionstore.NewMemory(), session.Lifetime(0), session.Cookie{Persist: true})
		},
	} {
		if m, err := f(); err == nil || m != nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := session.New(sessionstore.NewMemory(), session.Logger(nil)); err != nil {
		t.Error(err)
	}
}

// TestWaitZeroIsOneTry: MaxWait(0) means one try, as padlock.Wait(0) does.
func TestWaitZeroIsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, newManager(t, sessionstore.NewMemory()))
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			get1[int](t, s, "k")
			start := time.Now()
			b.twin().status(503, func(s *session.Session) { s.Put("k", 2) }, session.MaxWait(0), session.Exclusive)
			if took := time.Since(start); took != 0 {
				t.Errorf("it waited for %v", took)
			}
		}, session.Exclusive)
		b.ok(func(s *session.Session) { s.Put("k", 2) }, session.Exclusive, session.MaxWait(0))
	})
}

// TestTimeoutHandlerInside: http.TimeoutHandler answers in time, although the handler still waits
// for the session's lock.
func TestTimeoutHandlerInside(t *testing.T) { synctest.Test(t, timeoutHandlerInside) }

func timeoutHandlerInside(t *testing.T) {
	const wait = 20 * time.Second
	b := newBrowser(t, newManager(t, sessionstore.NewMemory(), session.MaxWait(wait)))
	b.putValue("k", 1)
	for name, c := range map[string]struct {
		use  func(s *session.Session) error
		opts []session.RouteOption
	}{
		"get":        {func(s *session.Session) error { return s.Watch("k") }, []session.RouteOption{session.Exclusive}},
		"incr":       {func(s *session.Session) error { _, err := s.Incr(bg, "n", 1); return err }, nil},
		"regenerate": {func(s *session.Session) error { return s.Regenerate(bg) }, nil},
	} {
		b.ok(func(s *session.Session) {
			get1[int](t, s, "k")
			got := make(chan error, 1)
			start := time.Now()
			w := b.twin().answer(http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got <- c.use(session.From(r.Context()))
			}), 50*time.Millisecond, "too slow").ServeHTTP, c.opts...)
			if took := time.Since(start); w.Code != 503 || took > wait/2 || !strings.Contains(w.Body.String(), "too slow") {
				t.Errorf("%s: %d after %v: %s", name, w.Code, took, w.Body)
			}
			// The wait ends by the inner context, or because the answer begins.
			if err := <-got; !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrBusy) {
				t.Errorf("%s: %v", name, err)
			}
		}, session.Exclusive)
	}
	has(b, "n", 0)
}

// TestTimeoutHandlerCutsOff: if http.TimeoutHandler answers while the handler still works, the
// writes that the handler has made so far are not saved.
func TestTimeoutHandlerCutsOff(t *testing.T) { synctest.Test(t, timeoutHandlerCutsOff) }

func timeoutHandlerCutsOff(t *testing.T) {
	b := newBrowser(t, newManager(t, sessionstore.NewMemory()))
	b.putValue("k", 1)
	for name, c := range map[string]struct {
		limit time.Duration
		then  func(ctx context.Context, leave func())
		want  int
	}{
		"too slow":           {50 * time.Millisecond, func(ctx context.Context, _ func()) { <-ctx.Done() }, 1},
		"the client leaves":  {time.Hour, func(ctx context.Context, leave func()) { leave(); <-ctx.Done() }, 1},
		"its own 503":        {time.Hour, func(context.Context, func()) {}, 2},
		"its own short wait": {time.Hour, func(ctx context.Context, _ func()) { c, end := context.WithTimeout(ctx, 1); <-c.Done(); end() }, 2},
	} {
		b.putValue("k", 1)
		request, leave := context.WithCancel(bg)
		visitor := b.twin()
		visitor.ctx = request
		late := make(chan error, 1)
		answered := make(chan bool)
		w := visitor.answer(http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			noError(t, s.Put("k", 2))
			c.then(r.Context(), leave)
			if r.Context().Err() == nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			<-answered
			late <- s.Put("k", 3)
		}), c.limit, "too slow").ServeHTTP)
		close(answered)
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", name, w.Code)
		}
		if c.want == 1 {
			if err := <-late; !errors.Is(err, session.ErrClosed) {
				t.Errorf("%s: a Put after the answer: %v", name, err)
			}
		}
		leave()
		has(b, "k", c.want)
	}
}

// traceKey is in contexts of requests.
type traceKey struct{}

// tracing writes the request's trace with every line.
type tracing struct{ slog.Handler }

func (h tracing) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Any("trace", ctx.Value(traceKey{})))
	return h.Handler.Handle(ctx, r)
}

// TestEventsHaveTheContext: events have the context of the request. And caches do not keep an
// answer by OnError.
func TestEventsHaveTheContext(t *testing.T) {
	var logs bytes.Buffer
	var seen []any
	store := &broken{Store: sessionstore.NewMemory()}
	b := newBrowser(t, newManager(t, store, session.Logger(slog.New(tracing{slog.NewTextHandler(&logs, nil)})),
		session.OnEvent(func(ctx context.Context, _ session.Event) { seen = append(seen, ctx.Value(traceKey{})) }),
		session.OnError(func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusTeapot) })))
	b.putValue("k", 1)
	seen = nil
	b.ctx = context.WithValue(bg, traceKey{}, "t-1")
	store.load = session.ErrUnavailable
	w := b.answer(func(_ http.ResponseWriter, r *http.Request) { session.Get[int](session.From(r.Context()), "k") })
	if w.Code != http.StatusTeapot || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if !strings.Contains(logs.String(), "trace=t-1") || len(seen) == 0 || seen[0] != "t-1" {
		t.Errorf("events %v, log %s", seen, logs.String())
	}
}
