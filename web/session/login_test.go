package session_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session"
)

func login(t *testing.T, s *session.Session, user int) {
	t.Helper()
	noError(t, s.Regenerate(bg))
	noError(t, s.Put("user", user))
}

// TestLoginAfterALostAnswer: the visitor does not get the answer of a login, and logs in again with
// the old cookie. That works at once, in a session of its own: a client that knows only the old id
// sees nothing of the first login.
func TestLoginAfterALostAnswer(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("cart", 1)
		lost := b.twin()
		lost.ok(func(s *session.Session) {
			login(t, s, 42)
			noError(t, s.Put("secret", 7))
		})
		old := b.cookie.Value
		b.ok(func(s *session.Session) { login(t, s, 42) })
		if b.cookie.Value == old || b.cookie.Value == lost.cookie.Value {
			t.Error("the second login has no new id of its own")
		}
		has(b, "user", 42)
		has(b, "secret", 0)
		b.putValue("k", 3) // and can be written
		has(b, "k", 3)
		has(lost, "secret", 7)
		b.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
		has(b, "user", 0)
	})
}

// TestRememberAfterAMove: if another request has given the session a new id, a request with the old id
// sends no cookie. The old id would take the place of the new one in the browser, and end with the
// grace period.
func TestRememberAfterAMove(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBrowser(t, newManager(t, open()))
				for way, remember := range map[string]func(*session.Session) error{
					"directly": func(s *session.Session) error { return s.Remember(time.Hour) },
					"in Update": func(s *session.Session) error {
						return s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Remember(time.Hour) })
					},
				} {
					b.ok(func(s *session.Session) { noError(t, s.Put("cart", 1)) })
					w := b.twin().answer(func(_ http.ResponseWriter, r *http.Request) {
						s := session.From(r.Context())
						get1[int](t, s, "cart")
						<-time.After(time.Second) // the request began before the session got its new id
						b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
						noError(t, remember(s))
					})
					if set := w.Result().Cookies(); len(set) > 0 || w.Code != http.StatusOK {
						t.Errorf("%s: %d with %v", way, w.Code, set)
					}
					b.ok(func(s *session.Session) {
						if end, err := s.Deadline(); err != nil || time.Until(end) > time.Hour || time.Until(end) < time.Minute {
							t.Errorf("%s: the session ends at %v, %v", way, end, err)
						}
						noError(t, s.Destroy(bg))
					})
				}
			})
		})
	}
}

// TestDoubleClick: two logins at once from one cookie jar both answer 200. All writes are in the
// one session, whose id comes with one of the answers.
func TestDoubleClick(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		for round := range 20 {
			b.ok(func(s *session.Session) { noError(t, s.Put("cart", round+1)) })
			old := b.cookie.Value
			clicks := []*browser{b.twin(), b.twin()}
			var both, loaded sync.WaitGroup
			loaded.Add(2)
			for i, click := range clicks {
				both.Go(func() {
					click.ok(func(s *session.Session) {
						get1[int](t, s, "cart")
						loaded.Done()
						loaded.Wait() // both have begun before one of them moves the session
						noError(t, s.Regenerate(bg))
						noError(t, s.Put([]string{"first", "second"}[i], round+1))
					})
				})
			}
			both.Wait()
			moved := 0
			for _, click := range clicks {
				if click.cookie.Value != old {
					moved++
					b.cookie = click.cookie
				}
			}
			if moved != 1 {
				t.Fatalf("%d of two answers have a new id", moved)
			}
			for _, key := range []string{"first", "second", "cart"} {
				has(b, key, round+1)
			}
		}
	})
}
