package session_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// onConflict runs every handler up to three times.
var onConflict = session.RetryConflicts(2)

// TestSecondRunKeepsTheNewID: the first run changed the id and met a conflict. The second run keeps
// the new id, and the client gets it.
func TestSecondRunKeepsTheNewID(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		old := b.cookie.Value
		run := 0
		b.ok(func(s *session.Session) {
			run++
			n := get1[int](t, s, "k")
			noError(t, s.Regenerate(bg))
			if run == 1 {
				noError(t, session.Interfere(s, "k", 7))
			}
			noError(t, s.Put("k", n+1))
		})
		if run != 2 || b.cookie.Value == old {
			t.Errorf("%d runs, cookie %v", run, b.cookie)
		}
		has(b, "k", 8)
	}, onConflict)
}

// TestSecondRunKeepsWhatWasMade: Incr in the first run makes a session at once. The second run uses
// this session.
func TestSecondRunKeepsWhatWasMade(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		run := 0
		b.ok(func(s *session.Session) {
			run++
			must[int64](t)(s.Incr(bg, "n", 1))
			k := get1[int](t, s, "k")
			if run == 1 {
				noError(t, session.Interfere(s, "k", 7))
			}
			noError(t, s.Put("k", k+1))
		})
		has(b, "n", 2)
		has(b, "k", 8)
	}, onConflict)
}

// TestSecondRunHasItsOwnHeader: headers that the first run's handler sets after the refusal are not
// in the answer. The answer sets the cookie only once.
func TestSecondRunHasItsOwnHeader(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		run := 0
		w := b.answer(func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			run++
			n := get1[int](t, s, "k")
			noError(t, s.Regenerate(bg))
			if run == 1 {
				noError(t, session.Interfere(s, "k", 7))
			}
			s.Put("k", n+1)
			w.Write(nil)
			if run == 1 {
				w.Header().Set("X-Late", "1")
				w.Header().Add("Set-Cookie", "late=1")
			}
		})
		if w.Code != 200 || w.Header().Get("X-Late") != "" || len(w.Header()["Set-Cookie"]) != 1 || w.Header().Get("Vary") != "Cookie" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		has(b, "k", 8)
	}, onConflict)
}

// recovering is a middleware that answers 500 after a panic, as many servers do.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// TestPanicKeepsTheNewID: an outer handler that recovers the panic sends the new id of the session.
func TestPanicKeepsTheNewID(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		old := b.cookie.Value
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(b.cookie)
		w := httptest.NewRecorder()
		recovering(b.m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			noError(t, s.Regenerate(bg))
			s.Put("k", 2)
			panic("oops")
		}))).ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if w.Code != 500 || len(cookies) != 1 || cookies[0].Value == old {
			t.Fatalf("%d %v", w.Code, cookies)
		}
		b.cookie = cookies[0]
		has(b, "k", 1)
	})
}

// TestUpdateMaySetANewID: a Regenerate or a Destroy inside Update also applies to the request.
func TestUpdateMaySetANewID(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		old := b.cookie.Value
		b.ok(func(s *session.Session) {
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
				if err := tx.Regenerate(bg); err != nil {
					return err
				}
				return tx.Put("user", 42)
			}))
			noError(t, s.Put("k", 2))
		})
		if b.cookie.Value == old {
			t.Fatal("the client has the old id")
		}
		has(b, "user", 42)
		has(b, "k", 2)
		b.ok(func(s *session.Session) {
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Destroy(bg) }))
		})
		if b.cookie != nil {
			t.Error("the cookie is still there")
		}
	})
}

// TestReadBeforeExclusive: an outer layer reads a key without the lock, and an inner route, which
// has the lock, writes this key. The commit fails if the key has changed since the outer layer read
// it. If the inner route reads the key again, only that value counts.
func TestReadBeforeExclusive(t *testing.T) {
	for _, c := range []struct {
		name  string
		outer func(s *session.Session) int
		inner func(s *session.Session, n int)
		want  int
	}{
		{"put", func(s *session.Session) int { return get1[int](t, s, "n") }, func(s *session.Session, n int) { s.Put("n", n+1) }, 409},
		{"read again", func(s *session.Session) int { return get1[int](t, s, "n") },
			func(s *session.Session, _ int) { s.Put("n", get1[int](t, s, "n")+1) }, 200},
		{"put outside", func(s *session.Session) int { n := get1[int](t, s, "n"); s.Put("n", n+1); return n },
			func(s *session.Session, _ int) { s.Has("x") }, 409},
		{"incr", func(s *session.Session) int { return get1[int](t, s, "n") }, func(s *session.Session, _ int) { s.Incr(bg, "n", 1) }, 409},
		{"all keys", func(s *session.Session) int { s.Keys(); return 1 }, func(s *session.Session, n int) { s.Put("n", n+1) }, 409},
		{"all keys, read again", func(s *session.Session) int { s.Keys(); return 1 },
			func(s *session.Session, _ int) { s.Keys(); s.Put("n", get1[int](t, s, "n")+1) }, 200},
		{"absent", func(s *session.Session) int { s.Keys(); return 1 }, func(s *session.Session, _ int) { s.Put("new", 6) }, 409},
		{"watched", func(s *session.Session) int { s.Watch("n"); return 0 }, func(s *session.Session, _ int) { s.Put("x", 1) }, 409},
		{"another key", func(s *session.Session) int { return get1[int](t, s, "n") }, func(s *session.Session, _ int) { s.Put("x", 1) }, 200},
		{"not read", func(s *session.Session) int { s.Has("x"); return 0 }, func(s *session.Session, _ int) { s.Put("n", 9) }, 200},
		{"nothing inside", func(s *session.Session) int { s.Has("x"); s.Put("n", 4); return 0 }, func(*session.Session, int) {}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStores(t, func(t *testing.T, b *browser) {
				b.putValue("n", 1)
				var n int
				status := b.nested(func(s *session.Session) {
					n = c.outer(s)
					b.twin().ok(func(s *session.Session) { s.Put("n", 5); s.Put("new", 5) })
				}, func(s *session.Session) { c.inner(s, n) }, session.Exclusive)
				if status != c.want {
					t.Errorf("answered %d, want %d", status, c.want)
				}
			})
		})
	}
}

// TestReadBeforeExclusiveRunsAgain: with RetryConflicts the handler runs again, and the writes of
// both requests are saved.
func TestReadBeforeExclusiveRunsAgain(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("n", 1)
		var n int
		runs := 0
		status := b.nested(func(s *session.Session) {
			n = get1[int](t, s, "n")
			if runs++; runs == 1 {
				b.twin().putValue("n", n+1)
			}
		}, func(s *session.Session) { s.Put("n", n+1) }, session.Exclusive)
		if status != 200 || runs != 2 {
			t.Errorf("answered %d after %d runs", status, runs)
		}
		has(b, "n", 3)
	}, onConflict)
}

// TestUpdateFollowsWithoutLocks: an Update of a request that began before the id was changed writes
// into the session with its new id, even if there is no Locker.
func TestUpdateFollowsWithoutLocks(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			m, err := session.New(open(), plain)
			noError(t, err)
			b := newBrowser(t, m)
			b.putValue("k", 1)
			victim := b.twin()
			b.ok(func(s *session.Session) {
				victim.ok(func(s *session.Session) {
					<-time.After(2 * time.Millisecond) // Moved.At is in whole milliseconds
					noError(t, s.Regenerate(bg))
					noError(t, s.Put("user", 42))
				})
				noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("late", get1[int](t, tx, "k")) }))
			})
			has(victim, "late", 1)
			has(victim, "user", 42)
		})
	}
}

// TestAnswerInsideUpdate: the answer begins in the function of an Update that has given the session
// a new id. It has that id.
func TestAnswerInsideUpdate(t *testing.T) {
	b := newBrowser(t, newManager(t, sessionstore.NewMemory()))
	b.putValue("k", 1)
	old := b.cookie.Value
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		noError(t, session.From(r.Context()).Update(bg, func(ctx context.Context, tx *session.Session) error {
			err := tx.Regenerate(ctx)
			w.WriteHeader(http.StatusOK)
			return err
		}))
	})
	if b.cookie.Value == old {
		t.Error("the answer has the old id")
	}
	has(b, "k", 1)
}
