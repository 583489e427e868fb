package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// login logs the user in, as a handler does.
func (b *browser) login(user string) {
	b.t.Helper()
	b.ok(func(s *session.Session) {
		noError(b.t, s.Regenerate(bg))
		noError(b.t, s.SetUser(user))
		noError(b.t, s.Put("user", user))
	})
}

// isUser checks who is logged in.
func (b *browser) isUser(want string) {
	b.t.Helper()
	twin := b.twin() // a session that has ended makes no new one
	twin.do(func(s *session.Session) {
		got, err := s.User()
		if value, err2 := session.Get[string](s, "user"); got != want || value != want || err != nil || err2 != nil {
			b.t.Errorf("the user is %q (%v), and the value %q (%v), want %q", got, err, value, err2, want)
		}
	})
}

func (b *browser) wantSessions(user string, want int) []*session.Session {
	b.t.Helper()
	all, err := b.m.UserSessions(bg, user)
	if len(all) != want || err != nil {
		b.t.Errorf("%q has %d sessions, %v, want %d", user, len(all), err, want)
	}
	return all
}

// TestEndUserSessions: all sessions of a user end, and those of other users do not.
func TestEndUserSessions(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		phone, other, visitor := newBrowser(t, b.m), newBrowser(t, b.m), newBrowser(t, b.m)
		b.putValue("cart", 1)
		b.login("ann")
		phone.login("ann")
		other.login("bob")
		visitor.putValue("k", 1)
		b.wantSessions("ann", 2)
		b.wantSessions("nobody", 0)
		b.ok(func(s *session.Session) { // a request under way
			get1[int](t, s, "cart")
			if n, err := b.m.EndUserSessions(bg, "ann"); n != 2 || err != nil {
				t.Errorf("%d sessions ended, %v", n, err)
			}
			s.Abandon()
		})
		b.isUser("")
		phone.isUser("")
		other.isUser("bob")
		has(visitor, "k", 1)
		b.wantSessions("ann", 0)
		b.wantSessions("bob", 1)
	})
}

// TestEndUserSessionsAndLateWriters: a request under way cannot bring its session back.
func TestEndUserSessionsAndLateWriters(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.login("ann")
		b.status(http.StatusConflict, func(s *session.Session) {
			get1[string](t, s, "user")
			if n := must[int](t)(b.m.EndUserSessions(bg, "ann")); n != 1 {
				t.Errorf("%d sessions ended", n)
			}
			s.Put("user", "ann")
		})
		b.isUser("")
	})
}

// TestEndUserSessionsButThisOne: after a change of the password, the session of the request goes on
// under a new id. Its old ids have no grace, although they had one before.
func TestEndUserSessionsButThisOne(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		phone := newBrowser(t, b.m)
		b.login("ann")
		phone.login("ann")
		stolen := b.twin()
		b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
		stolen.isUser("ann") // in the grace period
		b.ok(func(s *session.Session) {
			if n, err := b.m.EndUserSessions(bg, "ann", s); n != 1 || err != nil {
				t.Errorf("%d sessions ended, %v", n, err)
			}
		})
		b.isUser("ann")
		stolen.isUser("")
		phone.isUser("")
		for _, s := range b.wantSessions("ann", 1) {
			b.ok(func(own *session.Session) {
				if !s.Same(own) {
					t.Error("another session was kept")
				}
			})
		}
	})
}

// TestEndUserSessionsWhileTheIDChanges: a Regenerate is under way, and the session has two copies.
// Both end.
func TestEndUserSessionsWhileTheIDChanges(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &beforeMove{IndexedStore: open()}
			b := newBrowser(t, newManager(t, store))
			b.login("ann")
			store.call = func() {
				if _, err := b.m.EndUserSessions(bg, "ann"); err != nil {
					t.Error(err)
				}
			}
			b.status(http.StatusConflict, func(s *session.Session) { s.Regenerate(bg) })
			b.isUser("")
			b.wantSessions("ann", 0)
		})
	}
}

// beforeMove calls a function before the next move of a session.
type beforeMove struct {
	sessionstore.IndexedStore
	call func()
}

func (b *beforeMove) Commit(ctx context.Context, key string, c sessionstore.Change) (sessionstore.Result, error) {
	if c.Move.To.Text() != "" && b.call != nil {
		call := b.call
		b.call = nil
		call()
	}
	return b.IndexedStore.Commit(ctx, key, c)
}

// afterList calls a function after the next list of a user's sessions.
type afterList struct {
	sessionstore.IndexedStore
	call func()
}

func (a *afterList) Noted(ctx context.Context, user string) ([]string, error) {
	keys, err := a.IndexedStore.Noted(ctx, user)
	if a.call != nil {
		call := a.call
		a.call = nil
		call()
	}
	return keys, err
}

// TestEndUserSessionsAfterANewID: a session gets a new id after the sessions were listed. It ends
// all the same.
func TestEndUserSessionsAfterANewID(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &afterList{IndexedStore: open()}
			b := newBrowser(t, newManager(t, store))
			b.login("ann")
			store.call = func() { b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) }) }
			if n, err := b.m.EndUserSessions(bg, "ann"); n != 1 || err != nil {
				t.Errorf("%d sessions ended, %v", n, err)
			}
			b.isUser("")
		})
	}
}

// TestUserOfASession: the last name counts, "" names nobody, and the names of this package are no
// keys of the handler's.
func TestUserOfASession(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.login("ann")
		b.login("bob")
		b.wantSessions("ann", 0)
		b.wantSessions("bob", 1)
		if n, err := b.m.EndUserSessions(bg, "ann"); n != 0 || err != nil {
			t.Errorf("%d sessions of another user ended, %v", n, err)
		}
		b.ok(func(s *session.Session) {
			noError(t, s.Remember(time.Hour))
			noError(t, s.Clear())
			noError(t, s.Put("k", 1))
		})
		b.ok(func(s *session.Session) {
			if keys := must[[]string](t)(s.Keys()); len(keys) != 1 || keys[0] != "k" {
				t.Errorf("%q", keys)
			}
			if err := s.Put("padlock:user", "eve"); !errors.Is(err, session.ErrKey) {
				t.Errorf("Put of a key of this package: %v", err)
			}
			s.IgnoreRefused()
		})
		b.wantSessions("bob", 1)
		b.ok(func(s *session.Session) { noError(t, s.SetUser("")) })
		b.wantSessions("bob", 0)
	})
}

// TestUserSessionsCanBeUsed: a listed session is read, changed, and ended on its own.
func TestUserSessionsCanBeUsed(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		phone := newBrowser(t, b.m)
		b.login("ann")
		phone.login("ann")
		phone.putValue("device", "phone")
		for _, s := range b.wantSessions("ann", 2) {
			if get1[string](t, s, "device") != "phone" {
				noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("message", "hello") }))
				noError(t, s.Put("n", 1))
				noError(t, s.Commit(bg))
				continue
			}
			if s.Token() != "" {
				t.Error("a listed session shows its id")
			}
			noError(t, s.Destroy(bg))
		}
		phone.isUser("")
		b.isUser("ann")
		has(b, "message", "hello")
		has(b, "n", 1)
	})
}

// noIndex is a store without an index.
type noIndex struct{ sessionstore.Store }

func TestStoreWithoutIndex(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, newManager(t, noIndex{sessionstore.NewMemory()}))
	b.status(503, func(s *session.Session) {
		if err := s.SetUser("ann"); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	})
	_, err := b.m.UserSessions(bg, "ann")
	_, err2 := b.m.EndUserSessions(bg, "ann")
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err2, errors.ErrUnsupported) {
		t.Error(err, err2)
	}
}

// failingIndex is a store whose index cannot be written.
type failingIndex struct{ sessionstore.IndexedStore }

func (failingIndex) Note(context.Context, string, string, time.Duration) error {
	return errors.New("connection refused")
}

// TestLoginWithoutIndex: a login that cannot be noted is not saved, because nobody could end it.
func TestLoginWithoutIndex(t *testing.T) {
	t.Parallel()
	b := newBrowser(t, newManager(t, failingIndex{sessionstore.NewMemory()}))
	b.status(503, func(s *session.Session) { noError(t, s.SetUser("ann")); s.Put("user", "ann") })
	b.isUser("")
}

// TestIndexLivesAsLongAsTheSession: a session without an absolute end is found as long as it is
// used.
func TestIndexLivesAsLongAsTheSession(t *testing.T) {
	inBubble(t, []session.Option{session.IdleTimeout(time.Hour), session.Lifetime(0)}, func(t *testing.T, b *browser) {
		b.login("ann")
		for range 20 {
			<-time.After(50 * time.Minute)
			b.isUser("ann")
		}
		b.wantSessions("ann", 1)
		<-time.After(3 * time.Hour)
		b.wantSessions("ann", 0)
	})
}

// TestRemember: a remembered session lives without being used, its cookie outlives the browser, and
// a new id keeps both.
func TestRemember(t *testing.T) {
	const month = 30 * 24 * time.Hour
	inBubble(t, []session.Option{session.IdleTimeout(time.Hour), session.Lifetime(24 * time.Hour)}, func(t *testing.T, b *browser) {
		b.login("ann")
		if b.cookie.MaxAge != 0 {
			t.Errorf("the cookie lives for %d s", b.cookie.MaxAge)
		}
		forgetful := newBrowser(t, b.m)
		forgetful.login("ann")
		b.ok(func(s *session.Session) {
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Remember(month) }))
		})
		if age := time.Duration(b.cookie.MaxAge) * time.Second; age < month || age > month+2*time.Second {
			t.Errorf("the cookie lives for %v", age)
		}
		<-time.After(20 * 24 * time.Hour)
		b.isUser("ann")
		forgetful.isUser("")
		b.wantSessions("ann", 1)
		b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
		if age := time.Duration(b.cookie.MaxAge) * time.Second; age < month/3 || age > month/3+2*time.Second {
			t.Errorf("with its new id, the cookie lives for %v", age)
		}
		b.wantSessions("ann", 1)
		<-time.After(10*24*time.Hour - time.Minute)
		b.isUser("ann")
		<-time.After(2 * time.Minute)
		b.isUser("")
	})
}

// TestRememberNoMore: Remember(0) makes the idle time count again.
func TestRememberNoMore(t *testing.T) {
	inBubble(t, []session.Option{session.IdleTimeout(time.Hour)}, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) { noError(t, s.Remember(48*time.Hour)); noError(t, s.Put("user", "ann")) })
		<-time.After(3 * time.Hour)
		b.ok(func(s *session.Session) { noError(t, s.Remember(0)) })
		if b.cookie.MaxAge != 0 {
			t.Errorf("the cookie lives for %d s", b.cookie.MaxAge)
		}
		<-time.After(30 * time.Minute)
		has(b, "user", "ann")
		<-time.After(2 * time.Hour)
		has(b.twin(), "user", "")
	})
}

// TestSetDeadline: one session ends earlier, another later than the Lifetime. Update works, too.
func TestSetDeadline(t *testing.T) {
	inBubble(t, []session.Option{session.IdleTimeout(0), session.Lifetime(time.Hour)}, func(t *testing.T, b *browser) {
		long, short := newBrowser(t, b.m), newBrowser(t, b.m)
		long.putValue("k", 1)
		end := time.Now().Add(3 * time.Hour)
		long.ok(func(s *session.Session) { noError(t, s.SetDeadline(end)) })
		short.putValue("k", 1)
		short.ok(func(s *session.Session) {
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
				return tx.SetDeadline(time.Now().Add(10 * time.Minute))
			}))
			noError(t, s.Put("after", 1))
		})
		<-time.After(9 * time.Minute)
		has(short, "k", 1)
		<-time.After(2 * time.Minute)
		has(short.twin(), "k", 0)
		<-time.After(2 * time.Hour)
		long.ok(func(s *session.Session) {
			if at, err := s.Deadline(); !at.Equal(end.Truncate(time.Millisecond)) || err != nil {
				t.Errorf("it ends at %v, %v, want %v", at, err, end)
			}
		})
		has(long, "k", 1)
		<-time.After(time.Hour)
		has(long.twin(), "k", 0)
		long.status(503, func(s *session.Session) { s.SetDeadline(time.Time{}) })
		long.status(503, func(s *session.Session) { s.Remember(-1) })
	})
}

// TestLoad: a client without cookies has a session by its token.
func TestLoad(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		s := b.m.Load(bg, "")
		if n := get1[int](t, s, "n"); n != 0 || s.Token() != "" {
			t.Errorf("a new session has %d, and the token %q", n, s.Token())
		}
		noError(t, s.Put("n", 1))
		noError(t, s.Commit(bg))
		token := s.Token()
		again := b.m.Load(bg, token)
		if n := get1[int](t, again, "n"); n != 1 || again.Token() != token {
			t.Errorf("%d, token %q, want the token %q", n, again.Token(), token)
		}
		b.cookie = &http.Cookie{Name: "session", Value: token}
		has(b, "n", 1)
		noError(t, again.Regenerate(bg))
		noError(t, again.Commit(bg))
		if fresh := again.Token(); fresh == token || get1[int](t, b.m.Load(bg, fresh), "n") != 1 {
			t.Error("Regenerate made no new token, or lost the session")
		}
		last := b.m.Load(bg, again.Token())
		noError(t, last.Destroy(bg))
		if last.Token() != "" || get1[int](t, b.m.Load(bg, again.Token()), "n") != 0 {
			t.Error("after Destroy there is a session")
		}
	})
}

// TestLoadAdoptsNothing: an id that a client made up gets no session.
func TestLoadAdoptsNothing(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		other := b.m.Load(bg, "")
		noError(t, other.Put("k", 1))
		noError(t, other.Commit(bg))
		noError(t, b.m.Load(bg, other.Token()).Destroy(bg))
		for _, token := range []string{"made-up", other.Token()} {
			s := b.m.Load(bg, token)
			noError(t, s.Put("k", 2))
			noError(t, s.Commit(bg))
			if s.Token() == token {
				t.Errorf("the token %q was adopted", token)
			}
		}
	})
}

// TestLoadLocks: an Exclusive session without a request keeps its lock until Commit or Abandon.
func TestLoadLocks(t *testing.T) {
	for what, end := range map[string]func(*session.Session){
		"Commit":  func(s *session.Session) { s.Commit(bg) },
		"Abandon": func(s *session.Session) { s.Abandon() },
	} {
		t.Run(what, func(t *testing.T) {
			onStores(t, func(t *testing.T, b *browser) {
				first := b.m.Load(bg, "")
				noError(t, first.Put("k", 1))
				noError(t, first.Commit(bg))
				s := b.m.Load(bg, first.Token())
				get1[int](t, s, "k")
				if _, err := session.Get[int](b.m.Load(bg, first.Token()), "k"); !errors.Is(err, session.ErrBusy) {
					t.Errorf("a second one: %v", err)
				}
				end(s)
				if n := get1[int](t, b.m.Load(bg, first.Token()), "k"); n != 1 {
					t.Error(n)
				}
			}, session.Exclusive, session.MaxWait(0))
		})
	}
}

// TestNewContext: a handler finds a session that a test has prepared, with and without Middleware.
func TestNewContext(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			fmt.Fprint(w, session.GetOr(s, "user", "nobody"))
			noError(t, s.Put("seen", true))
		})
		for range 2 {
			s := b.m.Load(bg, "")
			noError(t, s.Put("user", "ann"))
			w := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/", nil)
			handler.ServeHTTP(w, r.WithContext(session.NewContext(r.Context(), s)))
			if w.Body.String() != "ann" || !get1[bool](t, s, "seen") {
				t.Errorf("%q", w.Body)
			}
			handler = b.m.Middleware(handler)
		}
	})
}

// TestIndexForgets: keys of sessions that have ended do not stay.
func TestIndexForgets(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := open()
				want := func(want ...string) {
					t.Helper()
					if got, err := x.Noted(bg, "ann"); !slices.Equal(got, want) || err != nil {
						t.Errorf("%q, %v, want %q", got, err, want)
					}
				}
				noError(t, x.Note(bg, "ann", "a", time.Hour))
				noError(t, x.Note(bg, "ann", "b", 0))
				<-time.After(2 * time.Minute)
				noError(t, x.Note(bg, "ann", "c", time.Hour))
				noError(t, x.Forget(bg, "ann", []string{"b", "c"}))
				want("a", "c") // c is new
				<-time.After(3 * time.Hour)
				noError(t, x.Note(bg, "ann", "d", time.Hour))
				want("d")
				<-time.After(2 * time.Minute)
				noError(t, x.Forget(bg, "ann", []string{"d"}))
				want()
			})
		})
	}
}
