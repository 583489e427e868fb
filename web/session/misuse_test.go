package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// TestNestedMiddleware: a Middleware inside of another, or of With, has the same session.
func TestNestedMiddleware(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		inner := b.m.With(session.Exclusive)(b.m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			noError(t, s.Put("sum", get1[int](t, s, "sum")+get1[int](t, s, "add")))
		})))
		outer := b.m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			noError(t, session.From(r.Context()).Put("add", 2))
			inner.ServeHTTP(w, r)
		}))
		for range 3 {
			if w := b.answer(outer.ServeHTTP); w.Code != 200 || len(w.Result().Cookies()) > 1 {
				t.Errorf("%d %v", w.Code, w.Header())
			}
		}
		has(b, "sum", 6)
	})
}

// TestPanicInUpdate: the function of an Update panics. None of its writes is saved, and the lock is
// free, whether the handler recovers or not.
func TestPanicInUpdate(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		for _, mode := range []session.Mode{session.Delta, session.Exclusive, session.ReadOnly} {
			broken := func(s *session.Session) {
				s.Update(bg, func(_ context.Context, tx *session.Session) error { tx.Put("k", 2); panic("oops") })
			}
			if recovered(func() { b.do(broken, mode) }) == nil {
				t.Error("the panic has not reached the server")
			}
			b.ok(func(s *session.Session) {
				if k := get1[int](t, s, "k"); k != 1 {
					t.Errorf("%v: k is %d", mode, k)
				}
			}, session.Exclusive, session.MaxWait(0))
			b.do(func(s *session.Session) {
				recovered(func() { broken(s) })
				noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("after", int(mode)+1) }))
			}, mode)
			has(b, "k", 1)
			has(b, "after", int(mode)+1)
		}
	})
}

// recovered calls f and returns its panic.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("marshal") }
func (*panicking) UnmarshalJSON([]byte) error  { panic("unmarshal") }

// TestPanicInTheCodec: the methods of a value panic, and the handler recovers. The session can be
// used after that.
func TestPanicInTheCodec(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			recovered(func() { s.Put("p", panicking{}) })
			recovered(func() { session.Get[panicking](s, "k") })
			recovered(func() { session.Take[panicking](bg, s, "k") })
			noError(t, s.Put("m", 1))
		}, session.Exclusive)
		has(b, "m", 1)
	})
}

// TestNamesOfUsers: SetUser refuses at once a name that would not be found again. Any other text
// names a user.
func TestNamesOfUsers(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			if err := s.SetUser(strings.Repeat("x", 2<<20)); !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("a huge name: %v", err)
			}
			if err := s.SetUser("\xff\xfe"); err == nil {
				t.Error("a name that is not UTF-8: no error")
			}
			s.IgnoreRefused()
			noError(t, s.Put("k", 2))
		})
		has(b, "k", 2)
		for _, user := range []string{"a\x00b", "ann bob", "é", strings.Repeat("u", 70000), "padlock:", "a\nb", "<script>"} {
			b.ok(func(s *session.Session) { noError(t, s.SetUser(user)) })
			if n, err := b.m.EndUserSessions(bg, user); n != 1 || err != nil {
				t.Errorf("%.20q: %d ended, %v", user, n, err)
			}
		}
	})
}

// TestCookieTwiceWrites: of two cookies that both have a session, the first one's session is read,
// and gets the writes, the new id and the end, too.
func TestCookieTwiceWrites(t *testing.T) {
	for _, mode := range []session.RouteOption{session.LastWriteWins, session.Exclusive} {
		m := newManager(t, sessionstore.NewMemory())
		a, b := newBrowser(t, m), newBrowser(t, m)
		a.putValue("k", 1)
		b.putValue("k", 2)
		send := func(f func(*session.Session)) {
			r := httptest.NewRequestWithContext(bg, "GET", "/", nil)
			r.AddCookie(a.cookie)
			r.AddCookie(b.cookie)
			w := httptest.NewRecorder()
			m.With(mode)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(session.From(r.Context())) })).ServeHTTP(w, r)
			for _, c := range w.Result().Cookies() {
				a.cookie = c
			}
			if w.Code != 200 {
				t.Errorf("%v: status %d", mode, w.Code)
			}
		}
		send(func(s *session.Session) { noError(t, s.Put("own", get1[int](t, s, "k"))) })
		has(a, "own", 1)
		has(b, "own", 0)
		send(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
		has(a, "k", 1)
		send(func(s *session.Session) { get1[int](t, s, "k"); noError(t, s.Destroy(bg)) })
		has(a, "k", 0)
		has(b, "k", 2)
	}
}

// TestCookieTwice: of several cookies of the name, the first one that has a session counts. A logout
// ends that session.
func TestCookieTwice(t *testing.T) {
	m := newManager(t, sessionstore.NewMemory())
	a, b := newBrowser(t, m), newBrowser(t, m)
	a.putValue("k", 1)
	b.putValue("k", 2)
	unknown := strings.Repeat("A", 43)
	for _, c := range []struct {
		ids  []string
		want int
	}{
		{[]string{a.cookie.Value, b.cookie.Value}, 1},
		{[]string{"../junk", b.cookie.Value, a.cookie.Value}, 2},
		{[]string{unknown, a.cookie.Value}, 1},
		{[]string{unknown, unknown, unknown, unknown, a.cookie.Value}, 0}, // four ids are looked for
	} {
		send := func(f func(*session.Session)) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(bg, "GET", "/", nil)
			for _, id := range c.ids {
				r.AddCookie(&http.Cookie{Name: "session", Value: id})
			}
			w := httptest.NewRecorder()
			m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(session.From(r.Context())) })).ServeHTTP(w, r)
			return w
		}
		w := send(func(s *session.Session) {
			if k := get1[int](t, s, "k"); k != c.want {
				t.Errorf("%q: k is %d, want %d", c.ids, k, c.want)
			}
		})
		if set := w.Result().Cookies(); len(set) > 0 {
			t.Errorf("%q: a reader gets the cookie %v", c.ids, set)
		}
		if c.ids[0] != unknown || c.want == 0 {
			continue
		}
		send(func(s *session.Session) { noError(t, s.Put("k", 1)) })
		a.ok(func(s *session.Session) { get1[int](t, s, "k") })
		send(func(s *session.Session) { noError(t, s.Destroy(bg)) })
		a.ok(func(s *session.Session) {
			if found, err := s.Has("k"); found || err != nil {
				t.Errorf("the session is there after the logout: %v", err)
			}
		})
	}
}

// After a login, the new id counts although the old one comes first and can still be read, for
// reading, writing and the logout.
func TestCookieTwiceAfterALogin(t *testing.T) {
	for name, destroy := range map[string]func(*session.Session) error{
		"unread": func(s *session.Session) error { return s.Destroy(bg) },
		"read":   func(s *session.Session) error { get1[int](t, s, "user"); return s.Destroy(bg) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, sessionstore.NewMemory())
			b := newBrowser(t, m)
			b.putValue("user", 0)
			first := b.cookie.Value
			for range 2 { // the second new id moves the first one
				b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
			}
			b.putValue("user", 1)
			cookies := b.cookie.Name + "=" + first + "; " + b.cookie.Name + "=" + b.cookie.Value
			send := func(f func(*session.Session)) int {
				r := httptest.NewRequestWithContext(bg, "GET", "/", nil)
				r.Header.Set("Cookie", cookies)
				w := httptest.NewRecorder()
				m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(session.From(r.Context())) })).ServeHTTP(w, r)
				return w.Code
			}
			if code := send(func(s *session.Session) {
				if got := get1[int](t, s, "user"); got != 1 {
					t.Errorf("the user is %d", got)
				}
				noError(t, s.Put("user", 2))
			}); code != 200 {
				t.Errorf("a write is answered with %d", code)
			}
			if code := send(func(s *session.Session) { noError(t, destroy(s)) }); code != 200 {
				t.Errorf("the logout is answered with %d", code)
			}
			send(func(s *session.Session) {
				if found, err := s.Has("user"); found || err != nil {
					t.Errorf("after the logout the session is there: %v", err)
				}
			})
		})
	}
}

// TestEndedContext: a call with a context that has ended changes nothing, says so, and keeps no
// lock. The answer is 503.
func TestEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(bg)
	cancel()
	for _, mode := range []session.Mode{session.Delta, session.Exclusive} {
		b := newBrowser(t, newManager(t, sessionstore.NewMemory()))
		b.putValue("k", 1)
		for name, call := range map[string]func(s *session.Session) error{
			"put":        func(s *session.Session) error { return s.WithContext(ended).Put("k", 2) },
			"get":        func(s *session.Session) error { _, err := s.WithContext(ended).Has("k"); return err },
			"incr":       func(s *session.Session) error { _, err := s.Incr(ended, "k", 1); return err },
			"commit":     func(s *session.Session) error { s.Put("k", 2); return s.Commit(ended) },
			"regenerate": func(s *session.Session) error { return s.Regenerate(ended) },
			"destroy":    func(s *session.Session) error { return s.Destroy(ended) },
			"update": func(s *session.Session) error {
				return s.Update(ended, func(_ context.Context, tx *session.Session) error { return tx.Put("k", 2) })
			},
		} {
			for _, loaded := range []bool{false, name != "put" && name != "get"} {
				b.status(503, func(s *session.Session) {
					if loaded {
						get1[int](t, s, "k")
					}
					if err := call(s); !errors.Is(err, session.ErrUnavailable) {
						t.Errorf("%v, %s: %v", mode, name, err)
					}
				}, mode)
			}
			b.ok(func(s *session.Session) {
				if k := get1[int](t, s, "k"); k != 1 {
					t.Errorf("%v, %s: k is %d", mode, name, k)
				}
			}, session.Exclusive, session.MaxWait(0))
		}
	}
}

// TestStream: a handler writes to its session between the parts of its answer, and then breaks the
// connection off.
func TestStream(t *testing.T) {
	m := newManager(t, sessionstore.NewMemory())
	c := serve(t, m.With(session.Exclusive)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := session.From(r.Context())
		noError(t, s.Put("n", 1))
		for range 3 {
			fmt.Fprint(w, "part")
			noError(t, http.NewResponseController(w).Flush())
			noError(t, s.Update(r.Context(), func(_ context.Context, tx *session.Session) error {
				n, err := session.Get[int](tx, "n")
				return errors.Join(err, tx.Put("n", n+1))
			}))
		}
		if err := s.Put("late", 1); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Put after the first byte: %v", err)
		}
		panic(http.ErrAbortHandler)
	})))
	res, err := http.Get(c.Base(0))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "partpartpart" || err == nil {
		t.Errorf("the answer is %q, %v", body, err)
	}
	s := m.Load(bg, res.Cookies()[0].Value)
	if keys, err := s.Keys(); len(keys) != 1 || get1[int](t, s, "n") != 4 || err != nil {
		t.Errorf("the session has %q, %v", keys, err)
	}
}

// TestPutOfHiddenFields: a value of which JSON would keep nothing is refused by Put, and the request
// fails, as after every wrong write.
func TestPutOfHiddenFields(t *testing.T) {
	type cart struct{ items []string }
	onStores(t, func(t *testing.T, b *browser) {
		b.do(func(s *session.Session) {
			for what, err := range map[string]error{"Put": s.Put("cart", cart{[]string{"milk"}}), "Flash": s.Flash("note", &cart{})} {
				if err == nil || !strings.Contains(err.Error(), "none of its fields is exported") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	})
}
