package session_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
)

// broken is a store whose calls fail with the errors load and commit, if these are set.
type broken struct {
	sessionstore.Store
	load, commit error
	done         bool // the commit is carried out before it fails
}

func (b *broken) Load(ctx context.Context, key string) (sessionstore.Record, error) {
	if b.load != nil {
		return sessionstore.Record{}, b.load
	}
	return b.Store.Load(ctx, key)
}

func (b *broken) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if b.commit != nil {
		if b.done {
			b.Store.Commit(ctx, key, c)
		}
		return sessionstore.Result{}, b.commit
	}
	return b.Store.Commit(ctx, key, c)
}

func TestStoreDown(t *testing.T) {
	store := &broken{Store: sessionstore.NewMemory()}
	b := newBrowser(t, newManager(t, store))
	b.putValue("k", 1)
	store.load = session.ErrUnavailable
	w := b.answer(func(w http.ResponseWriter, r *http.Request) {
		if _, err := session.Get[int](session.From(r.Context()), "k"); !errors.Is(err, session.ErrUnavailable) {
			t.Error(err)
		}
		w.Write([]byte("as if nothing had happened"))
	})
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "as if") {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
	b.ok(func(s *session.Session) { // this handler continues without its session
		session.Get[int](s, "k")
		s.Abandon()
		if _, err := session.Get[int](s, "k"); !errors.Is(err, session.ErrAbandoned) {
			t.Error(err)
		}
	})
	store.load, store.commit, store.done = nil, errors.New("connection reset"), true
	b.status(503, func(s *session.Session) {
		s.Put("k", 2)
		if err := s.Commit(bg); !errors.Is(err, session.ErrUnsaved) {
			t.Errorf("Commit with an unknown outcome returned %v", err)
		}
	})
	b.status(503, func(s *session.Session) { s.Incr(bg, "n", 1) })
}

// TestLocksDown: without the lock nothing is saved, and the error says so.
func TestLocksDown(t *testing.T) {
	store := sessionstore.NewMemory()
	b := newBrowser(t, newManager(t, store))
	b.putValue("k", 1)
	down := *b
	closed := newLocker(t)
	noError(t, closed.Close(bg))
	down.m = newManager(t, store, session.Locker(closed))
	for _, mode := range []session.Mode{session.Delta, session.Exclusive} {
		down.status(503, func(s *session.Session) {
			s.Put("k", 2)
			if err := s.Commit(bg); !errors.Is(err, session.ErrUnavailable) || errors.Is(err, session.ErrUnsaved) {
				t.Error(err)
			}
		}, mode)
	}
	down.ok(func(s *session.Session) { get1[int](t, s, "k") }, session.ReadOnly)
	has(b, "k", 1)
}

// TestLostReplyOfRegenerate: replies to the move are lost. If one arrives at last, Regenerate
// succeeds. Otherwise the client has a session, whether or not the store made the move.
func TestLostReplyOfRegenerate(t *testing.T) {
	for _, c := range []struct {
		lost   int  // replies
		done   bool // the store made the moves whose replies are lost
		status int
	}{{1, true, 200}, {1, false, 200}, {1e9, true, 503}, {1e9, false, 503}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBrowser(t, newManager(t, &tombstoneLost{Store: sessionstore.NewMemory(), lost: c.lost, done: c.done}))
			b.putValue("k", 1)
			old := b.cookie.Value
			b.status(c.status, func(s *session.Session) { s.Regenerate(bg) })
			if b.cookie.Value == old {
				t.Errorf("%+v: the client has the old id", c)
			}
			has(b, "k", 1)
		})
	}
}

type tombstoneLost struct {
	sessionstore.Store
	lost int
	done bool
}

func (b *tombstoneLost) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if c.Move.To.Text() == "" || b.lost == 0 {
		return b.Store.Commit(ctx, key, c)
	}
	if b.lost--; b.done {
		b.Store.Commit(ctx, key, c)
	}
	return sessionstore.Result{}, errors.New("connection reset")
}

// TestLockWait holds a session's lock and looks at how others are answered.
func TestLockWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := session.New(sessionstore.NewMemory(), session.Locker(newLocker(t)), plain)
		noError(t, err)
		b := newBrowser(t, m)
		b.putValue("k", 1)
		for _, c := range []struct {
			name     string
			deadline time.Duration // of the request; 0: none
			opts     []session.RouteOption
			want     time.Duration
		}{
			{"default", 0, []session.RouteOption{session.Exclusive}, 5 * time.Second},
			{"route", 0, []session.RouteOption{session.Exclusive, session.MaxWait(time.Second)}, time.Second},
			{"70 % of the deadline", 2 * time.Second, []session.RouteOption{session.Exclusive}, 1400 * time.Millisecond},
			{"long deadline", time.Minute, []session.RouteOption{session.Exclusive}, 5 * time.Second},
			{"Delta at its commit", 0, nil, 5 * time.Second},
			{"ReadOnly", 0, []session.RouteOption{session.ReadOnly}, 0},
		} {
			b.ok(func(s *session.Session) {
				get1[int](t, s, "k") // the session is locked
				other := b.twin()
				if c.deadline > 0 {
					ctx, cancel := context.WithTimeout(bg, c.deadline)
					defer cancel()
					other.ctx = ctx
				}
				start := time.Now()
				w := other.answer(func(w http.ResponseWriter, r *http.Request) {
					s := session.From(r.Context())
					session.Get[int](s, "k")
					s.Put("x", 1)
				}, c.opts...)
				code := 503
				if c.want == 0 {
					code = 200
				}
				if took := time.Since(start); w.Code != code || took != c.want || (w.Header().Get("Retry-After") == "") != (code == 200) {
					t.Errorf("%s: %d after %v, want %v; %v", c.name, w.Code, took, c.want, w.Header())
				}
			}, session.Exclusive)
			has(b, "x", 0)
		}
	})
}

// TestWriteTimeoutBoundsTheWait needs a real server.
func TestWriteTimeoutBoundsTheWait(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	m := newManager(t, sessionstore.NewMemory(), session.Exclusive, session.MaxWait(time.Minute))
	// If the server closes the connection, as on an overloaded machine, clients send a GET again.
	// Then /hold runs twice.
	inside, leave := make(chan bool, 10), make(chan bool)
	h := routes{
		"/put": put("k", 1), "/get": show("k"),
		"/hold": func(_ http.ResponseWriter, r *http.Request) {
			session.Get[int](session.From(r.Context()), "k")
			inside <- true
			<-leave
		},
	}
	srv := httptest.NewUnstartedServer(h.behind(m))
	srv.Config.WriteTimeout = 20 * time.Second // so a request may wait 17 s
	srv.Start()
	defer srv.Close()
	c := load.NewClient(srv.URL, 10)
	defer c.Close()
	wantPage(t, c, "/put", 200, "")
	var wg sync.WaitGroup
	wg.Go(func() { c.Get(t.Context(), 0, "/hold") })
	<-inside
	// If MaxWait were the only bound, the server would close the connection before the wait ends.
	a, err := c.Get(t.Context(), 0, "/get")
	if err != nil || a.Status != 503 {
		t.Errorf("%+v %v", a, err)
	}
	close(leave)
	wg.Wait()
}

// TestMaxWaiters: further requests are refused at once. The Locker may allow fewer of them.
func TestMaxWaiters(t *testing.T) {
	for limit, opts := range map[int][]padlock.LockerOption{session.MaxWaiters: nil, 3: {padlock.MaxWaiters(3)}} {
		synctest.Test(t, func(t *testing.T) {
			locker := padlock.New(memstore.New(), opts...)
			defer locker.Close(bg)
			b := newBrowser(t, newManager(t, sessionstore.NewMemory(), session.Locker(locker)))
			b.putValue("k", 1)
			var wg sync.WaitGroup
			var refused, served atomic.Int64
			b.ok(func(s *session.Session) {
				get1[int](t, s, "k")
				for range limit + 7 {
					wg.Go(func() {
						var err error
						b.twin().do(func(s *session.Session) { _, err = session.Get[int](s, "k") }, session.Exclusive)
						switch {
						case errors.Is(err, session.ErrTooManyWaiters):
							refused.Add(1)
						case err == nil:
							served.Add(1)
						}
					})
				}
				synctest.Wait()
				if n := refused.Load(); n != 7 {
					t.Errorf("%d were refused at once, want 7", n)
				}
			}, session.Exclusive)
			wg.Wait()
			if n := served.Load(); n != int64(limit) {
				t.Errorf("%d were served, want %d", n, limit)
			}
		})
	}
}

// phpHolds is a lock store in which a PHP process holds all locks. If until is zero, the locks do
// not expire.
type phpHolds struct{ until time.Time }

func (p phpHolds) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return driver.Grant{}, &driver.HeldError{Holds: []driver.Hold{{Foreign: true, Holder: driver.Holder{Label: "web1|4711"}}}, Until: p.until}
}
func (phpHolds) Extend(context.Context, string, string, time.Duration) (driver.Grant, error) {
	return driver.Grant{}, driver.ErrLost
}
func (phpHolds) Release(context.Context, string, string, time.Duration) (driver.Outcome, error) {
	return driver.OutcomeGone, nil
}
func (phpHolds) Guarantees() driver.Guarantees { return driver.Guarantees{Lease: true} }
func (phpHolds) Close() error                  { return nil }

func TestLockLeftByPHP(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	blobs := sessiontest.NewBlobs()
	blobs.Put(phpsession.DefaultPrefix+id, []byte("k|i:1;"))
	for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
		locker := padlock.New(phpHolds{until})
		defer locker.Close(bg)
		var logs bytes.Buffer
		m, err := phpsession.New(blobs, locker, phpsession.Config{}, session.Exclusive,
			session.MaxWait(0), session.Logger(slog.New(slog.NewTextHandler(&logs, nil))))
		noError(t, err)
		b := newBrowser(t, m)
		b.cookie = &http.Cookie{Name: phpsession.CookieName, Value: id}
		var got error
		w := b.answer(func(_ http.ResponseWriter, r *http.Request) {
			_, got = session.Get[int](session.From(r.Context()), "k")
		})
		const name = phpsession.DefaultPrefix + "012345…" + phpsession.DefaultLockSuffix
		var busy *session.BusyError
		if !errors.As(got, &busy) || busy.Lock != name || busy.Foreign != until.IsZero() {
			t.Errorf("%v", got)
		}
		if w.Code != 503 || strings.Contains(w.Body.String(), name) != until.IsZero() || strings.Contains(logs.String(), name) == false {
			t.Errorf("%d %q\n%s", w.Code, w.Body, logs.String())
		}
		if all := w.Body.String() + logs.String() + got.Error(); strings.Contains(all, id) {
			t.Errorf("the id is in the answer or the log: %s", all)
		}
	}
}

func TestOnError(t *testing.T) {
	store := &broken{Store: sessionstore.NewMemory()}
	b := newBrowser(t, newManager(t, store, session.OnError(func(w http.ResponseWriter, _ *http.Request, err error) {
		if !errors.Is(err, session.ErrUnavailable) {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot)
	})))
	b.putValue("k", 1)
	store.load = session.ErrUnavailable
	b.status(418, func(s *session.Session) { s.Keys() })
}

func TestWrongOptions(t *testing.T) {
	store := sessionstore.NewMemory()
	for name, opts := range map[string][]session.Option{
		"Exclusive without locks":    {session.Exclusive},
		"__Host- with a path":        {session.Cookie{Name: "__Host-x", Path: "/app"}},
		"a path without a slash":     {session.Cookie{Path: "app"}},
		"__Host- insecure":           {session.Cookie{Name: "__Host-x", Insecure: true}},
		"SameSite=None and insecure": {session.Cookie{SameSite: http.SameSiteNoneMode, Insecure: true}},
		"a cookie that is none":      {session.Cookie{Name: "a b"}},
		"negative time":              {session.IdleTimeout(-1)},
	} {
		if _, err := session.New(store, opts...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := session.New(nil); err == nil {
		t.Error("no store, no error")
	}
	defer func() {
		if recover() == nil {
			t.Error("With(Exclusive) without locks")
		}
	}()
	m, err := session.New(store)
	noError(t, err)
	m.With(session.Exclusive)
}

func TestNoSession(t *testing.T) {
	s := session.From(bg)
	_, err1 := session.Get[int](s, "k")
	_, err2 := s.Incr(bg, "k", 1)
	_, err3 := s.Keys()
	for _, err := range []error{err1, err2, err3, s.Put("k", 1), s.Delete("k"), s.Commit(bg), s.Destroy(bg), s.Regenerate(bg), s.Watch("k"),
		s.Update(bg, func(context.Context, *session.Session) error { return nil })} {
		if !errors.Is(err, session.ErrNoSession) {
			t.Errorf("%v", err)
		}
	}
	s.Abandon()
}

func TestDevelopmentReportsChangesInPlace(t *testing.T) {
	var found []string
	events := session.OnEvent(func(_ context.Context, e session.Event) {
		if e.Kind == session.EventInPlace {
			found = append(found, e.Key)
		}
	})
	b := newBrowser(t, newManager(t, sessionstore.NewMemory(), session.Development(), events))
	b.ok(func(s *session.Session) { s.Put("map", map[string]int{"a": 1}); s.Put("list", []int{1}); s.Put("n", 1) })
	b.ok(func(s *session.Session) {
		m := get1[map[string]int](t, s, "map")
		l := get1[[]int](t, s, "list")
		get1[int](t, s, "n")
		m["a"] = 2
		l[0] = 2
		s.Put("list", l)
	})
	if len(found) != 1 || found[0] != "map" {
		t.Errorf("reported %q", found)
	}
	b.ok(func(s *session.Session) {
		if m := get1[map[string]int](t, s, "map"); m["a"] != 1 {
			t.Error("it was saved")
		}
	})
}

// TestGoroutinesOfARequest uses a session in several goroutines, for the race detector.
func TestGoroutinesOfARequest(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for range 20 {
						get1[int](t, s, "k")
						noError(t, s.Put(string(rune('a'+i)), 1))
						s.Incr(bg, "n", 1)
						s.Keys()
						s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("u", i) })
					}
				})
			}
			wg.Wait()
		})
		has(b, "n", 160)
	})
}
