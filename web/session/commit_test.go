package session_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// onStores runs f on both kinds of stores.
func onStores(t *testing.T, f func(t *testing.T, b *browser), opts ...session.Option) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newBrowser(t, newManager(t, open(), opts...)))
		})
	}
}

// TestDeltaConditions runs a second request after the first has read, and before the first saves.
func TestDeltaConditions(t *testing.T) {
	type step func(s *session.Session)
	read := func(key string) step { return func(s *session.Session) { session.Get[int](s, key) } }
	has := func(key string) step { return func(s *session.Session) { s.Has(key) } }
	put := func(key string, v any) step { return func(s *session.Session) { s.Put(key, v) } }
	del := func(key string) step { return func(s *session.Session) { s.Delete(key) } }
	watch := func(key string) step { return func(s *session.Session) { s.Watch(key) } }
	keys := func(s *session.Session) { s.Keys() }
	load := has("other")
	for _, c := range []struct {
		name   string
		before []step
		other  step // of another request
		after  []step
		want   int
	}{
		{"read and written", []step{read("k")}, put("k", 5), []step{put("k", 6)}, 409},
		{"read and deleted", []step{read("k")}, put("k", 5), []step{del("k")}, 409},
		{"looked for and written", []step{has("k")}, put("k", 5), []step{put("k", 6)}, 409},
		{"deleted by the other", []step{read("k")}, del("k"), []step{put("k", 6)}, 409},
		{"absent counts", []step{read("new")}, put("new", 5), []step{put("new", 6)}, 409},
		{"read, another written", []step{read("k")}, put("k", 5), []step{put("new", 6)}, 200},
		{"read after writing", []step{put("k", 6), read("k")}, put("k", 5), []step{put("k", 7)}, 200},
		{"blind", []step{load}, put("k", 5), []step{put("k", 6)}, 200},
		{"blind delete", []step{load}, put("k", 5), []step{del("k")}, 200},
		{"same bytes again", []step{read("k")}, func(s *session.Session) { s.Put("k", 1) }, []step{put("k", 6)}, 200},
		{"watched", []step{read("k"), watch("k")}, put("k", 5), []step{put("new", 6)}, 409},
		{"watched, absent", []step{watch("new")}, put("new", 5), []step{put("k", 6)}, 409},
		{"watched, nothing written", []step{watch("k")}, put("k", 5), nil, 200},
		{"all keys read", []step{keys}, put("k", 5), []step{put("k", 6)}, 409},
		{"all keys read, new one", []step{keys}, put("new", 5), []step{put("new", 6)}, 409},
		{"all keys read, another", []step{keys}, put("k", 5), []step{put("new", 6)}, 200},
		{"nothing written", []step{read("k")}, put("k", 5), nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStores(t, func(t *testing.T, b *browser) {
				b.putValue("k", 1)
				b.status(c.want, func(s *session.Session) {
					for _, f := range c.before {
						f(s)
					}
					b.twin().ok(c.other)
					for _, f := range c.after {
						f(s)
					}
				})
				// A refused request saved nothing.
				b.ok(func(s *session.Session) {
					if n := get1[int](t, s, "new"); c.want == 409 && n == 6 {
						t.Error("a part of it was saved")
					}
				})
			})
		})
	}
}

// TestLastWriteWins: with LastWriteWins the last of two writes of a key stays.
func TestLastWriteWins(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			n := get1[int](t, s, "k")
			b.twin().putValue("k", 5)
			b.twin().putValue("other", 5)
			noError(t, s.Put("k", n+1))
		}, session.LastWriteWins)
		has(b, "k", 2)
		has(b, "other", 5)
	})
}

// TestConflictNamesKeys also shows that a conflict drops headers and the body
// of the handler.
func TestConflictNamesKeys(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		var err error
		w := b.answer(func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			w.Header().Set("X-Secret", "1")
			get1[int](t, s, "k")
			b.twin().putValue("k", 2)
			s.Put("k", 3)
			_, err = w.Write([]byte("secret"))
		})
		var conflict *sessionstore.ConflictError
		if !errors.As(err, &conflict) || !slices.Equal(conflict.Keys, []string{"k"}) {
			t.Errorf("%v", err)
		}
		if w.Code != 409 || strings.Contains(w.Body.String(), "secret") || w.Header().Get("X-Secret") != "" {
			t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
		}
	})
}

func TestOwnErrorAnswerStands(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		w := b.answer(func(w http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			get1[int](t, s, "k")
			b.twin().putValue("k", 2)
			s.Put("k", 3)
			http.Error(w, "mine", http.StatusTeapot)
		})
		if w.Code != 418 || w.Body.String() != "mine\n" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

func TestCommitTwice(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) {
			noError(t, s.Put("k", 1))
			noError(t, s.Commit(context.Background()))
			has(b.twinOf(s), "k", 0) // the client has no cookie yet
			noError(t, s.Commit(context.Background()))
			if err := s.Put("k", 2); !errors.Is(err, session.ErrClosed) {
				t.Errorf("Put after Commit: %v", err)
			}
			if _, err := s.Incr(bg, "n", 1); !errors.Is(err, session.ErrClosed) {
				t.Errorf("Incr after Commit: %v", err)
			}
			if n := get1[int](t, s, "k"); n != 1 {
				t.Error(n)
			}
		})
		has(b, "k", 1)
		// After a Commit has failed, a second one returns the same error, and the answer is 409.
		b.status(409, func(s *session.Session) {
			get1[int](t, s, "k")
			b.twin().putValue("k", 5)
			s.Put("k", 2)
			for range 2 {
				if err := s.Commit(context.Background()); !errors.Is(err, session.ErrConflict) {
					t.Error(err)
				}
			}
		})
	})
}

func (b *browser) twinOf(*session.Session) *browser { return b.twin() }

// TestCommitUnlocks: after Commit other requests get the lock, while the handler continues.
func TestCommitUnlocks(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			noError(t, s.Put("k", 2))
			noError(t, s.Commit(context.Background()))
			b.twin().ok(func(s *session.Session) { noError(t, s.Put("k", get1[int](t, s, "k")+1)) }, session.Exclusive)
		}, session.Exclusive)
		has(b, "k", 3)
	})
}

// TestExclusiveNeedsItsVersion: another request changes the session without the lock. The Exclusive
// request then fails.
func TestExclusiveNeedsItsVersion(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open()
			b := newBrowser(t, newManager(t, store))
			other := b.twin()
			other.m = newManager(t, store) // with locks of its own
			b.putValue("k", 1)
			other.cookie = b.cookie
			b.status(409, func(s *session.Session) {
				get1[int](t, s, "k")
				other.putValue("unrelated", 1)
				noError(t, s.Put("x", 1))
			}, session.Exclusive)
			has(b, "x", 0)
		})
	}
}

func TestReadOnly(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			_, err1 := s.Incr(bg, "k", 1)
			_, err2 := session.Flashes[int](bg, s, "k")
			for _, err := range []error{s.Put("k", 2), s.Delete("k"), err1, err2, s.Regenerate(context.Background())} {
				if !errors.Is(err, session.ErrReadOnly) {
					t.Errorf("%v", err)
				}
			}
			noError(t, s.Update(context.Background(), func(_ context.Context, tx *session.Session) error { return tx.Put("k", 3) }))
			if n := get1[int](t, s, "k"); n != 3 {
				t.Errorf("its own Update is not seen: %d", n)
			}
		}, session.ReadOnly)
		has(b, "k", 3)
	})
}

// TestReadersAndTheWriter: ReadOnly does not wait for an Exclusive request.
func TestReadersAndTheWriter(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			noError(t, s.Put("k", 2))
			b.twin().ok(func(s *session.Session) {
				if n := get1[int](t, s, "k"); n != 1 {
					t.Errorf("a reader saw %d", n)
				}
			}, session.ReadOnly)
		}, session.Exclusive)
		has(b, "k", 2)
	})
}

// TestModeOfARouteInside: an inner route is Exclusive, and the session was already loaded without
// the lock. It is loaded again.
func TestModeOfARouteInside(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		inner := b.m.With(session.Exclusive)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			if n := get1[int](t, s, "k"); n != 7 {
				t.Errorf("the lock is there and the value is old: %d", n)
			}
			noError(t, s.Put("k", 8))
		}))
		b.answer(func(w http.ResponseWriter, r *http.Request) {
			get1[int](t, session.From(r.Context()), "k")
			b.twin().putValue("k", 7)
			inner.ServeHTTP(w, r)
		})
		has(b, "k", 8)
	})
}

// TestIgnoreRefusedAfterCommit: a Commit that fails because of a refused write does not lose the
// other writes of the request.
func TestIgnoreRefusedAfterCommit(t *testing.T) {
	for _, mode := range []session.Mode{session.Delta, session.Exclusive, session.LastWriteWins} {
		b := newBrowser(t, newManager(t, sessionstore.NewMemory()))
		b.putValue("k", 1)
		refused := func(s *session.Session) {
			noError(t, s.Put("k", 2))
			s.Put("", 1)
			for range 2 {
				if err := s.Commit(bg); !errors.Is(err, session.ErrKey) {
					t.Errorf("%v: Commit: %v", mode, err)
				}
			}
		}
		b.status(http.StatusServiceUnavailable, refused, mode)
		has(b, "k", 1)
		b.answer(func(w http.ResponseWriter, r *http.Request) {
			refused(session.From(r.Context()))
			w.WriteHeader(http.StatusBadRequest)
			b.twin().ok(func(s *session.Session) { get1[int](t, s, "k") }, session.Exclusive, session.MaxWait(0))
		}, mode)
		b.ok(func(s *session.Session) { refused(s); s.IgnoreRefused() }, mode)
		has(b, "k", 2)
		b.ok(func(s *session.Session) {
			refused(s)
			s.IgnoreRefused()
			noError(t, s.Put("k", 3))
			noError(t, s.Commit(bg))
			if err := s.Put("k", 4); !errors.Is(err, session.ErrClosed) {
				t.Errorf("%v: Put after Commit: %v", mode, err)
			}
		}, mode)
		has(b, "k", 3)
	}
}

func TestBigSession(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		big := strings.Repeat("x", 400_000)
		b.ok(func(s *session.Session) {
			noError(t, s.Put("a", big))
			noError(t, s.Put("b", big))
			if err := s.Put("c", big); !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("%v", err)
			}
			s.IgnoreRefused()
			noError(t, s.Delete("a"))
			noError(t, s.Put("c", big))
			noError(t, s.Put("c", big))
		})
		b.ok(func(s *session.Session) {
			if err := s.Put("d", big); !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("%v", err)
			}
			s.IgnoreRefused()
			if keys := must[[]string](t)(s.Keys()); len(keys) != 2 {
				t.Errorf("%q", keys)
			}
			noError(t, s.Put("b", "small"))
			noError(t, s.Put("d", big))
		})
		has(b, "d", big)
	})
}

func TestManyKeys(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) {
			for i := range 5000 {
				noError(t, s.Put(strings.Repeat("k", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), i))
			}
		})
		b.ok(func(s *session.Session) {
			if keys := must[[]string](t)(s.Keys()); len(keys) != 5000 {
				t.Errorf("%d", len(keys))
			}
		})
	})
}

func TestBadKeysAndValues(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) {
			for _, key := range []string{"", strings.Repeat("k", session.MaxKey+1)} {
				if err := s.Put(key, 1); !errors.Is(err, session.ErrKey) {
					t.Errorf("%.5q: %v", key, err)
				}
			}
			if err := s.Put("f", func() {}); err == nil {
				t.Error("a function was put")
			}
			s.IgnoreRefused()
			noError(t, s.Put("text", "x"))
			if _, err := session.Get[int](s, "text"); err == nil {
				t.Error("text was read as a number")
			}
			if _, err := s.Incr(bg, "text", 1); !errors.Is(err, session.ErrNotNumber) {
				t.Errorf("%v", err)
			}
			noError(t, s.Put("\x00 é|…", 1))
		})
		has(b, "\x00 é|…", 1)
		has(b, "text", "x")
	})
}

// TestKeysAsTheRequestSeesThem: the keys and values include the request's own unsaved Puts, and not
// the keys that it deleted.
func TestKeysAsTheRequestSeesThem(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) { s.Put("a", 1); s.Put("b", 2); s.Put("c", 3) })
		b.ok(func(s *session.Session) {
			s.Delete("b")
			s.Put("c", 4)
			s.Put("d", 5)
			s.Put("e", 6)
			s.Delete("e")
			want := map[string]int{"a": 1, "c": 4, "d": 5}
			keys := must[[]string](t)(s.Keys())
			for _, key := range keys {
				if got := get1[int](t, s, key); got != want[key] {
					t.Errorf("%q is %d", key, got)
				}
			}
			if len(keys) != len(want) {
				t.Errorf("the keys are %q", keys)
			}
		})
	})
}

// TestReadingAfterTheCommitTakesNoLock: a stream may use its session for the first time after the
// commit. With the lock, it would block the session for hours.
func TestReadingAfterTheCommitTakesNoLock(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			noError(t, s.Commit(context.Background()))
			get1[int](t, s, "k")
			b.twin().ok(func(s *session.Session) { noError(t, s.Put("k", 2)) }, session.Exclusive, session.MaxWait(10*time.Second))
		}, session.Exclusive)
		has(b, "k", 2)
	})
}

// TestErrorCarriesTheNewID: after a Regenerate the answer has the new id, even if the answer is a
// conflict.
func TestErrorCarriesTheNewID(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		old := b.cookie.Value
		b.status(409, func(s *session.Session) {
			get1[int](t, s, "k")
			noError(t, s.Regenerate(context.Background()))
			noError(t, s.Put("k", 2))
			noError(t, session.Interfere(s, "k", 7))
		})
		if b.cookie.Value == old {
			t.Error("the client lost its session")
		}
		has(b, "k", 7)
	})
}
