package session_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/padlock-go/padlock/web/session"
)

// renew gives the session n new ids, one after the other.
func (b *browser) renew(n int) {
	b.t.Helper()
	for range n {
		b.ok(func(s *session.Session) { noError(b.t, s.Regenerate(bg)) })
	}
}

// TestLongChainOfIDs: many new ids in one grace period do not make a request with an old id begin a
// new session. Its cookie would replace the present one, and the visitor would be logged out.
func TestLongChainOfIDs(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("user", 42)
		old, id := b.twin(), b.cookie.Value
		b.renew(40)
		if code := old.do(func(s *session.Session) { s.Put("late", 1) }); code == http.StatusOK || old.cookie.Value != id {
			t.Errorf("a Put with an old id: %d, the cookie changed: %t", code, old.cookie.Value != id)
		}
		old.do(func(s *session.Session) {
			if err := s.Destroy(bg); !errors.Is(err, session.ErrUnavailable) {
				t.Errorf("Destroy with an old id: %v", err)
			}
		})
		has(b, "user", 42)
	})
}

// TestLogoutAfterManyIDs: a logout ends the session, even if the session got many new ids since the
// request began.
func TestLogoutAfterManyIDs(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("user", 42)
		other := b.twin()
		b.ok(func(s *session.Session) {
			get1[int](t, s, "user")
			other.renew(40)
			noError(t, s.Destroy(bg))
		})
		has(other, "user", 0)
	})
}
