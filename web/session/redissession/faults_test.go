package redissession_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/web/session"
)

// visitor is a browser. Its requests do not go over a network, so only the connection to Redis can
// fail.
type visitor struct {
	h      http.Handler
	cookie *http.Cookie
}

// ask sends a request, and keeps the cookie of the answer.
func (v *visitor) ask(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if v.cookie != nil {
		r.AddCookie(v.cookie)
	}
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if v.cookie = c; c.MaxAge < 0 {
			v.cookie = nil
		}
	}
	return w
}

// faulty is a site whose connections to Redis go through a proxy.
type faulty struct {
	*server.Proxy
	m *session.Manager
	h http.Handler
}

func newFaulty(t *testing.T, name string) *faulty {
	proxy := server.NewProxy(t, startRedis(t).Addr())
	m, err := session.New(stores[name](newRedis(t, client{option: clientOption(proxy.Addr())})), plain)
	noError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/put", func(_ http.ResponseWriter, r *http.Request) { session.From(r.Context()).Put("cart", 1) })
	mux.HandleFunc("/login", func(_ http.ResponseWriter, r *http.Request) {
		s := session.From(r.Context())
		if s.Regenerate(r.Context()) == nil {
			s.SetUser("ann")
		}
	})
	mux.HandleFunc("/logout", func(_ http.ResponseWriter, r *http.Request) { session.From(r.Context()).Destroy(r.Context()) })
	mux.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) {
		if user, err := session.From(r.Context()).User(); err == nil {
			w.Write([]byte(user))
		}
	})
	return &faulty{proxy, m, m.Middleware(mux)}
}

// loseReply loses the reply to the nth request from now on. It reports whether there was one.
func (f *faulty) loseReply(nth int64) *atomic.Bool {
	var n atomic.Int64
	lost := new(atomic.Bool)
	f.LoseReply(func([]byte) bool {
		if n.Add(1) != nth {
			return false
		}
		lost.Store(true)
		return true
	})
	return lost
}

// jitter makes each reply of Redis take up to 4 ms, so that requests come together in many ways.
func (f *faulty) jitter() {
	f.Disturb(server.Trouble{}, server.Trouble{Delay: 2 * time.Millisecond, Jitter: 2 * time.Millisecond})
}

// userOf returns the user of the session with this cookie.
func (f *faulty) userOf(t *testing.T, c *http.Cookie) string {
	t.Helper()
	v := visitor{f.h, c}
	w := v.ask("/user")
	if w.Code != http.StatusOK {
		t.Errorf("/user answers %d", w.Code)
	}
	return w.Body.String()
}

// TestLoginAndLogoutLoseAReply: each reply of Redis during a login is lost once. The visitor, who
// may or may not have got the answer, logs in again. The reply to each request of a logout is lost,
// too. At last, EndUserSessions finds every session that came of this.
func TestLoginAndLogoutLoseAReply(t *testing.T) {
	t.Parallel()
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, name)
			var cookies []*http.Cookie
			for nth, lost := int64(1), true; lost; nth++ {
				lost = false
				for _, path := range []string{"/login", "/logout"} {
					v := &visitor{h: f.h}
					v.ask("/put")
					if path == "/logout" {
						v.ask("/login")
					}
					old := v.cookie
					chosen := f.loseReply(nth)
					w := v.ask(path)
					f.LoseReply(nil)
					lost = lost || chosen.Load()
					if w.Code != http.StatusOK && w.Code != http.StatusServiceUnavailable {
						t.Errorf("%s answers %d after reply %d was lost", path, w.Code, nth)
					}
					for _, again := range []*visitor{{f.h, v.cookie}, {f.h, old}} {
						if w := again.ask(path); w.Code != http.StatusOK {
							t.Errorf("the next %s answers %d %q, after reply %d was lost", path, w.Code, w.Body, nth)
						}
						if user := f.userOf(t, again.cookie); (user == "ann") != (path == "/login") {
							t.Errorf("after the next %s the user is %q; reply %d was lost", path, user, nth)
						}
						cookies = append(cookies, again.cookie)
					}
					cookies = append(cookies, v.cookie, old)
				}
			}
			if len(cookies) < 20 {
				t.Errorf("only %d cookies", len(cookies))
			}
			if n, err := f.m.EndUserSessions(t.Context(), "ann"); n == 0 || err != nil {
				t.Errorf("%d sessions ended, %v", n, err)
			}
			for _, c := range cookies {
				if c != nil && f.userOf(t, c) != "" {
					t.Error("a session of the user lives on")
				}
			}
		})
	}
}

// TestEndWhileLoggingIn: sessions of logins that are under way when EndUserSessions is called may
// live on, each with its writes. A second call, when the logins have been answered, ends them all.
func TestEndWhileLoggingIn(t *testing.T) {
	t.Parallel()
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, name)
			f.jitter()
			for range 4 {
				var visitors []*visitor
				for range 8 {
					v := &visitor{h: f.h}
					v.ask("/put")
					visitors = append(visitors, v)
				}
				var logins, ends sync.WaitGroup
				for _, v := range visitors {
					logins.Go(func() {
						if w := v.ask("/login"); w.Code != http.StatusOK && w.Code != http.StatusConflict {
							t.Errorf("a login answers %d", w.Code)
						}
					})
				}
				var answered atomic.Bool
				ends.Go(func() {
					for !answered.Load() {
						if _, err := f.m.EndUserSessions(t.Context(), "ann"); err != nil {
							t.Error(err)
						}
					}
				})
				logins.Wait()
				answered.Store(true)
				ends.Wait()
				alive := 0
				for _, v := range visitors {
					if f.userOf(t, v.cookie) == "ann" {
						alive++
					}
				}
				if n, err := f.m.EndUserSessions(t.Context(), "ann"); n < alive || err != nil {
					t.Errorf("%d sessions ended, %v, and %d were alive", n, err, alive)
				}
				for _, v := range visitors {
					if user := f.userOf(t, v.cookie); user != "" {
						t.Errorf("%q is still logged in", user)
					}
				}
			}
		})
	}
}

// TestLogoutWhileSaving: however the logout and the saves of other requests come together, and
// though a reply is lost, the session does not come back.
func TestLogoutWhileSaving(t *testing.T) {
	t.Parallel()
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, name)
			f.jitter()
			for round := range int64(24) {
				v := &visitor{h: f.h}
				v.ask("/put")
				v.ask("/login")
				cookie := v.cookie
				f.loseReply(1 + round%12)
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { (&visitor{f.h, cookie}).ask("/put") })
				}
				status := 0
				wg.Go(func() { status = v.ask("/logout").Code })
				wg.Wait()
				f.LoseReply(nil)
				if status != http.StatusOK {
					status = (&visitor{f.h, cookie}).ask("/logout").Code
				}
				if status != http.StatusOK {
					t.Errorf("round %d: the logout is repeated and answers %d", round, status)
				}
				if user := f.userOf(t, cookie); user != "" {
					t.Errorf("round %d: %q is logged in again", round, user)
				}
			}
		})
	}
}
