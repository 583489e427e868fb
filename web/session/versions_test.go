package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// TestNewerFormat: during a rolling deploy, or after a downgrade, an older padlock meets sessions
// of a newer one. It neither reads nor changes them, and its error says why.
func TestNewerFormat(t *testing.T) {
	for name, newer := range map[string]string{"session": "PLS\x02something new", "tombstone": "PLM\x02something new"} {
		blobs := sessiontest.NewBlobs()
		b := newBrowser(t, newManager(t, sessionstore.FromBlobs(blobs, sessionstore.Packed(), sessionstore.Traits{})))
		b.putValue("k", 1)
		key := session.KeyOf(b.m, b.cookie.Value)
		old, _ := blobs.Get(bg, key)
		blobs.Put(key, []byte(newer))
		for what, use := range map[string]func(*session.Session) error{
			"get":  func(s *session.Session) error { _, err := session.Get[int](s, "k"); return err },
			"put":  func(s *session.Session) error { return s.Put("k", 2) },
			"incr": func(s *session.Session) error { _, err := s.Incr(bg, "k", 2); return err },
			"update": func(s *session.Session) error {
				return s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("k", 2) })
			},
		} {
			b.twin().status(503, func(s *session.Session) {
				if err := use(s); !errors.Is(err, session.ErrRefused) || !strings.Contains(err.Error(), "newer padlock") {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			})
		}
		if now, err := blobs.Get(bg, key); string(now.Data) != newer || err != nil {
			t.Errorf("%s: it was changed to %q, %v", name, now.Data, err)
		}

		// With DiscardUnreadable the visitor has a new session, and the newer one stays for the
		// newer padlock.
		store := sessionstore.FromBlobs(blobs, sessionstore.Packed(), sessionstore.Traits{})
		fresh := &browser{t: t, m: newManager(t, store, session.DiscardUnreadable()), ctx: bg, cookie: b.cookie}
		fresh.putValue("k", 3)
		has(fresh, "k", 3)
		if now, _ := blobs.Get(bg, key); string(now.Data) != newer {
			t.Errorf("%s: DiscardUnreadable changed it to %q", name, now.Data)
		}

		// Destroy ends the newer session. Data in the present format are read as before.
		twin := b.twin()
		twin.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
		if _, err := blobs.Get(bg, key); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("%s: after Destroy: %v", name, err)
		}
		blobs.Put(key, old.Data)
		has(b.twin(), "k", 1)
	}
}
