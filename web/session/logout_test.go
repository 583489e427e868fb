package session_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// nested sends a request through a layer that uses the session in the Manager's
// mode, and then through a route with opts.
func (b *browser) nested(outer, inner func(*session.Session), opts ...session.RouteOption) int {
	route := b.m.With(opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { inner(session.From(r.Context())) }))
	return b.answer(func(w http.ResponseWriter, r *http.Request) {
		outer(session.From(r.Context()))
		route.ServeHTTP(w, r)
	}).Code
}

// TestLogoutIsNotRevivedInside: an outer handler reads the session, a logout ends it, and then an
// inner route takes the lock. The Puts of the outer handler must not make a new session.
func TestLogoutIsNotRevivedInside(t *testing.T) {
	for name, outer := range map[string]func(s *session.Session){
		"read": func(s *session.Session) { session.Get[string](s, "user") },
		"put":  func(s *session.Session) { session.Get[string](s, "user"); s.Put("user", "bo") },
	} {
		for mode, m := range map[string]session.Mode{"Exclusive": session.Exclusive} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				onStores(t, func(t *testing.T, b *browser) {
					b.putValue("user", "bo")
					had := b.cookie.Value
					status := b.nested(func(s *session.Session) {
						outer(s)
						b.twin().ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
					}, func(s *session.Session) {
						_, err := session.Get[int](s, "cart")
						if !errors.Is(err, session.ErrDestroyed) {
							t.Errorf("reading again: %v", err)
						}
						if err := s.Put("cart", 1); err == nil {
							t.Error("it could be written")
						}
					}, m)
					if status != http.StatusConflict {
						t.Errorf("answered %d", status)
					}
					if b.cookie != nil && b.cookie.Value != had {
						t.Error("there is a new session")
					}
					has(b, "user", "")
				})
			})
		}
	}
}

// TestReloadGoesByTheOldID: a request with an old id sees no login, even if an inner route loads
// the session again.
func TestReloadGoesByTheOldID(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		victim := b.twin()
		login := func() {
			<-time.After(2 * time.Millisecond) // Moved.At is in whole milliseconds
			victim.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)); noError(t, s.Put("user", 42)) })
		}
		look := func(s *session.Session) {
			if n := get1[int](t, s, "user"); n != 0 {
				t.Error("it reads the login")
			}
		}
		b.nested(func(s *session.Session) { login(); look(s) }, look, session.Exclusive) // begins before the login
		b.nested(look, look, session.Exclusive)                                          // begins after it
		has(victim, "user", 42)
	})
}

// TestLogoutByAnOldID: an id from before Regenerate cannot end the session with the new id. The
// logout ends the old id, and the client that sent it has no session any more.
func TestLogoutByAnOldID(t *testing.T) {
	for name, look := range map[string]bool{"first use": false, "loaded": true} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, b *browser) {
				b.putValue("k", 1)
				old := b.twin()
				b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
				again := old.twin()
				old.ok(func(s *session.Session) {
					if look {
						get1[int](t, s, "k")
					}
					noError(t, s.Destroy(bg))
				})
				if old.cookie != nil {
					t.Error("the cookie was not deleted")
				}
				has(again, "k", 0) // another client that knows the old id
				has(b, "k", 1)
				b.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
				old.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) }) // nothing is left to end
			})
		})
	}
}

// TestDestroyUnreadable: a session that cannot be read can be ended.
func TestDestroyUnreadable(t *testing.T) {
	blobs := sessiontest.NewBlobs()
	spoil := &spoiling{BlobStore: blobs}
	b := newBrowser(t, newManager(t, sessionstore.FromBlobs(spoil, sessionstore.Packed(), sessionstore.Traits{})))
	for _, look := range []bool{false, true} {
		b.putValue("k", 1)
		blobs.Put(spoil.key, []byte("PLS\x02 of a newer version"))
		b.status(503, func(s *session.Session) { session.Get[int](s, "k") })
		b.ok(func(s *session.Session) {
			if look {
				session.Get[int](s, "k")
			}
			noError(t, s.Destroy(bg))
		})
		if b.cookie != nil {
			t.Error("the cookie is still there")
		}
		if _, err := blobs.Get(bg, spoil.key); !errors.Is(err, sessionstore.ErrNotFound) {
			t.Errorf("the session is still there: %v", err)
		}
	}
}

// TestDiscardUnreadable: with this option the visitor begins a new session.
func TestDiscardUnreadable(t *testing.T) {
	spoil := &spoiling{BlobStore: sessiontest.NewBlobs()}
	var kinds []session.EventKind
	b := newBrowser(t, newManager(t, sessionstore.FromBlobs(spoil, sessionstore.Packed(), sessionstore.Traits{}), session.DiscardUnreadable(),
		session.OnEvent(func(_ context.Context, e session.Event) { kinds = append(kinds, e.Kind) })))
	b.putValue("k", 1)
	old := b.cookie.Value
	spoil.BlobStore.(*sessiontest.Blobs).Put(spoil.key, []byte("PLS\x02 of a newer version"))
	kinds = nil
	b.ok(func(s *session.Session) {
		if n := get1[int](t, s, "k"); n != 0 {
			t.Error(n)
		}
		noError(t, s.Put("k", 2))
	})
	if b.cookie.Value == old || len(kinds) == 0 || kinds[0] != session.EventUnreadable {
		t.Errorf("cookie %v, events %v", b.cookie, kinds)
	}
	has(b, "k", 2)
}

// spoiling knows the key of the session that was made last.
type spoiling struct {
	sessionstore.BlobStore
	key string
}

func (s *spoiling) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	if old == nil && bytes.HasPrefix(data, []byte("PLS")) {
		s.key = key
	}
	return s.BlobStore.Swap(ctx, key, old, data, ttl)
}

// guarded is a lock store that answers but grants no locks for a while, as Redis does after a
// restart.
type guarded struct {
	padlock.Store
	down bool
}

func (g *guarded) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if g.down {
		return driver.Grant{}, driver.ErrUnavailable
	}
	return g.Store.Acquire(ctx, r)
}

// TestLocksAfterARestart: if conditions protect the commits, sessions work even while the lock
// store grants no locks. Only an Exclusive request fails then, and even its Destroy succeeds.
func TestLocksAfterARestart(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			locks := &guarded{Store: memstore.New()}
			locker := padlock.New(locks)
			defer locker.Close(bg)
			var unlocked int
			b := newBrowser(t, newManager(t, open(), session.Locker(locker),
				session.OnEvent(func(_ context.Context, e session.Event) {
					if e.Kind == session.EventUnlocked {
						unlocked++
					}
				})))
			b.putValue("k", 1)
			locks.down = true
			b.ok(func(s *session.Session) { noError(t, s.Put("k", get1[int](t, s, "k")+1)) })
			b.ok(func(s *session.Session) { must[int64](t)(s.Incr(bg, "n", 5)) })
			b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
			b.ok(func(s *session.Session) {
				noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("u", get1[int](t, tx, "k")) }))
			})
			if unlocked < 4 {
				t.Errorf("%d events", unlocked)
			}
			has(b, "k", 2)
			has(b, "n", 5)
			has(b, "u", 2)
			b.status(http.StatusConflict, func(s *session.Session) { // the conditions still detect a conflict
				n := get1[int](t, s, "k")
				b.twin().putValue("k", 7)
				s.Put("k", n+1)
			})
			b.status(503, func(s *session.Session) { s.Put("k", 9) }, session.Exclusive)
			has(b, "k", 7)
			b.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) }, session.Exclusive)
			has(b, "k", 0)
		})
	}
}
