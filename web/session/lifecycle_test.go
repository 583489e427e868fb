package session_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

var bg = context.Background()

func TestUpdate(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			get1[int](t, s, "k")
			b.twin().putValue("k", 5)
			b.twin().putValue("new", 1)
			runs := 0
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
				runs++
				n := get1[int](t, tx, "k")
				if n != 5 {
					t.Errorf("it did not read again: %d", n)
				}
				return tx.Put("k", n+1)
			}))
			if n := get1[int](t, s, "k"); n != 6 || runs != 1 {
				t.Errorf("%d, %d runs", n, runs)
			}
			if ok, _ := s.Has("new"); ok {
				t.Error("Update changed keys of the request's view that it did not write")
			}
			// A request does not conflict with its own writes.
			noError(t, s.Put("k", 10))
		})
		has(b, "k", 10)
		has(b, "new", 1)
		b.ok(func(s *session.Session) {
			oops := errors.New("oops")
			if err := s.Update(bg, func(_ context.Context, tx *session.Session) error { tx.Put("k", 0); return oops }); err != oops {
				t.Error(err)
			}
		})
		has(b, "k", 10)
	})
}

func TestUpdateMakesASession(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) {
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("k", 1) }))
			noError(t, s.Put("l", 2))
		})
		has(b, "k", 1)
		has(b, "l", 2)
	})
}

func TestUpdateInExclusive(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("k", 2) }))
		}, session.Exclusive)
		has(b, "k", 2)
	})
}

// TestUpdateRunsAgain: another request changes the session while fn runs. Then fn runs again.
func TestUpdateRunsAgain(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open()
			m, err := session.New(store, plain) // there is no Locker here
			noError(t, err)
			b := newBrowser(t, m)
			b.putValue("k", 1)
			b.ok(func(s *session.Session) {
				runs := 0
				noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
					n := get1[int](t, tx, "k")
					if runs++; runs == 1 {
						b.twin().putValue("k", 10)
					}
					return tx.Put("k", n+1)
				}))
				if runs != 2 {
					t.Errorf("%d runs", runs)
				}
			})
			has(b, "k", 11)
		})
	}
}

func TestIncr(t *testing.T) {
	for _, mode := range []session.Mode{session.Delta, session.Exclusive, session.LastWriteWins} {
		onStores(t, func(t *testing.T, b *browser) {
			b.ok(func(s *session.Session) {
				if n, err := s.Incr(bg, "n", 5); n != 5 || err != nil {
					t.Error(n, err)
				}
				if n, err := s.Incr(bg, "n", -7); n != -2 || err != nil {
					t.Error(n, err)
				}
				noError(t, s.Put("n", 100))
				if n, err := s.Incr(bg, "n", 1); n != 101 || err != nil {
					t.Errorf("after Put: %d %v", n, err)
				}
				noError(t, s.Delete("n"))
				if n, err := s.Incr(bg, "n", 3); n != 3 || err != nil {
					t.Errorf("after Delete: %d %v", n, err)
				}
				noError(t, s.Put("other", 1))
			}, mode)
			b.ok(func(s *session.Session) {
				if n, err := s.Incr(bg, "n", 1); n != 4 || err != nil {
					t.Error(n, err)
				}
				if n := get1[int](t, s, "other"); n != 1 {
					t.Error(n)
				}
				s.Abandon() // Abandon does not undo Incr
			}, mode)
			has(b, "n", 4)
		})
	}
}

func TestFlashOnce(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) { noError(t, s.Flash("notice", "saved")) })
		b.ok(func(s *session.Session) {
			if ok, _ := s.Has("notice"); ok {
				t.Error("a message is a value of its own")
			}
			s.Keys() // so both requests have seen the message
			b.twin().ok(func(s *session.Session) { wantFlashes(t, s, "notice", "saved") })
			wantFlashes(t, s, "notice")
		}, session.LastWriteWins)
		b.ok(func(s *session.Session) {
			noError(t, s.Flash("notice", "again"))
			wantFlashes(t, s, "notice", "again") // in the same request
		})
		b.ok(func(s *session.Session) {
			if keys := must[[]string](t)(s.Keys()); len(keys) != 0 {
				t.Errorf("%q", keys)
			}
		})
	})
}

func wantFlashes(t *testing.T, s *session.Session, key string, want ...string) {
	t.Helper()
	if got, err := session.Flashes[string](bg, s, key); !slices.Equal(got, want) || err != nil {
		t.Errorf("Flashes(%q) = %q, %v, want %q", key, got, err, want)
	}
}

// TestFlashes: messages of requests that come at once are all kept, in the order in which they
// came, and apart from messages under other keys.
func TestFlashes(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) {
			get1[int](t, s, "k")
			noError(t, s.Flash("a", "1"))
			noError(t, s.Flash("a", "2"))
			b.twin().ok(func(s *session.Session) {
				noError(t, s.Flash("a", "3"))
				noError(t, s.Flash("a:b", "other"))
			})
		})
		b.ok(func(s *session.Session) {
			noError(t, s.Flash("a", "4"))
			wantFlashes(t, s, "a", "1", "2", "3", "4")
			wantFlashes(t, s, "a")
		})
		b.ok(func(s *session.Session) { wantFlashes(t, s, "a:b", "other") })
	})
}

// TestClear: all keys that the request knows are removed when it commits, and no others.
func TestClear(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("a", 1)
		b.ok(func(s *session.Session) {
			noError(t, s.Put("b", 1))
			noError(t, s.Clear())
			b.twin().putValue("c", 1)
			noError(t, s.Put("d", 1))
		})
		b.ok(func(s *session.Session) {
			keys := must[[]string](t)(s.Keys())
			if slices.Sort(keys); !slices.Equal(keys, []string{"c", "d"}) {
				t.Errorf("%q are left", keys)
			}
		})
		b.ok(func(s *session.Session) {
			if err := s.Clear(); !errors.Is(err, session.ErrReadOnly) {
				t.Error(err)
			}
		}, session.ReadOnly)
	})
}

// TestGetOr: GetOr returns its default only if there is no value that can be decoded.
func TestGetOr(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.ok(func(s *session.Session) {
			if v := session.GetOr(s, "n", 7); v != 7 {
				t.Errorf("no value: %d", v)
			}
			noError(t, s.Put("n", 0))
		})
		b.ok(func(s *session.Session) {
			v, found, err := session.Lookup[int](s, "n")
			if d := session.GetOr(s, "n", 7); d != 0 || v != 0 || !found || err != nil {
				t.Errorf("%d, %d %v %v", d, v, found, err)
			}
			if v := session.GetOr(s, "n", "text"); v != "text" {
				t.Errorf("a value of another type: %q", v)
			}
			noError(t, s.Put("n", 3))
			if v := must[int](t)(session.Get[int](s, "n")); v != 3 {
				t.Errorf("%d", v)
			}
			if v, found, err := session.Take[int](bg, s, "n"); v != 3 || !found || err != nil {
				t.Errorf("%d %v %v", v, found, err)
			}
		})
		has(b, "n", 0)
	})
}

func TestDestroy(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.status(409, func(s *session.Session) { // a slow request
			get1[int](t, s, "k")
			logout := b.twin()
			logout.ok(func(s *session.Session) {
				s.Put("k", 2)
				noError(t, s.Destroy(bg))
				noError(t, s.Destroy(bg))
				if err := s.Put("k", 3); !errors.Is(err, session.ErrDestroyed) {
					t.Error(err)
				}
			})
			if logout.cookie != nil {
				t.Error("the cookie is still there")
			}
			if err := s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("k", 9) }); !errors.Is(err, session.ErrDestroyed) {
				t.Errorf("Update: %v", err)
			}
			s.Put("k", 4)
		})
		has(b, "k", 0)
	})
}

func TestRegenerate(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		old := b.twin()
		b.ok(func(late *session.Session) { // this request is under way when the id changes
			get1[int](t, late, "k")
			b.ok(func(s *session.Session) {
				noError(t, s.Regenerate(bg))
				noError(t, s.Put("user", 42))
			})
			noError(t, late.Put("late", 1))
		})
		if b.cookie.Value == old.cookie.Value {
			t.Fatal("the id is the same")
		}
		has(b, "user", 42)
		has(b, "k", 1)
		has(b, "late", 1)
		// A request with the old id sees the values from before the login, and cannot write.
		has(old, "k", 1)
		has(old, "user", 0)
		old.status(409, func(s *session.Session) {
			for _, err := range []error{
				s.Put("k", 2), s.Update(bg, func(context.Context, *session.Session) error { return nil }),
			} {
				if !errors.Is(err, session.ErrMoved) {
					t.Error(err)
				}
			}
			if _, err := s.Incr(bg, "n", 1); !errors.Is(err, session.ErrMoved) {
				t.Error(err)
			}
		})
		has(b, "k", 1)
		has(b, "n", 0)
		// A logout ends the old id too.
		b.ok(func(s *session.Session) { noError(t, s.Destroy(bg)) })
		has(old, "k", 0)
	})
}

// TestUnderWaySeesNoLogin: a request with the old id that had begun before the login may save, but
// must not read later values.
func TestUnderWaySeesNoLogin(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		victim := b.twin()
		b.ok(func(s *session.Session) { // this request has not used its session yet
			victim.ok(func(s *session.Session) {
				<-time.After(2 * time.Millisecond) // Moved.At is in whole milliseconds
				noError(t, s.Regenerate(bg))
				noError(t, s.Put("user", 42))
			})
			if n := get1[int](t, s, "user"); n != 0 {
				t.Error("it reads the login")
			}
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
				if n := get1[int](t, tx, "user"); n != 0 {
					t.Error("Update reads the login")
				}
				return nil
			}))
			noError(t, s.Regenerate(bg)) // nothing to do: the session has just got a new id
			if n := get1[int](t, s, "user"); n != 0 {
				t.Error("it reads the login after its own Regenerate")
			}
			noError(t, s.Put("cart", 3))
		})
		if b.cookie.Value == victim.cookie.Value {
			t.Error("it got the new id")
		}
		has(victim, "cart", 3)
		has(victim, "user", 42)
	})
}

// TestRegenerateKeepsWritesOfOthers: Regenerate copies the session again if another request saves
// meanwhile.
func TestRegenerateKeepsWritesOfOthers(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k0", 1)
		var cookie atomic.Pointer[http.Cookie]
		cookie.Store(b.cookie)
		stop := make(chan bool)
		saved := make(chan int)
		go func() {
			last := 0
			for i := 1; ; i++ {
				select {
				case <-stop:
					saved <- last
					return
				default:
				}
				writer := &browser{t: t, m: b.m, ctx: bg, cookie: cookie.Load()}
				switch code := writer.do(func(s *session.Session) { s.Put("n", i) }); code {
				case http.StatusOK:
					last = i
				case http.StatusConflict: // the id was changed before the request began
				default:
					t.Errorf("status %d", code)
				}
			}
		}()
		for range 10 {
			b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) })
			cookie.Store(b.cookie)
		}
		close(stop)
		last := <-saved
		has(b, "k0", 1)
		has(b, "n", last)
	})
}

func inBubble(t *testing.T, opts []session.Option, f func(t *testing.T, b *browser)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := session.New(open(), append(opts, plain)...)
				noError(t, err)
				f(t, newBrowser(t, m))
			})
		})
	}
}

func TestGraceEnds(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		old := b.twin()
		b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg, session.GracePeriod(time.Minute))) })
		<-time.After(59 * time.Second)
		has(old, "k", 1) // this use does not prolong the grace period
		<-time.After(2 * time.Second)
		has(old, "k", 0)
		has(b, "k", 1)
	})
}

func TestIdleTimeout(t *testing.T) {
	inBubble(t, []session.Option{session.IdleTimeout(time.Hour), session.Lifetime(0)}, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		for range 5 {
			<-time.After(50 * time.Minute)
			b.ok(func(s *session.Session) { get1[int](t, s, "k") }, session.ReadOnly)
		}
		has(b, "k", 1)
		<-time.After(time.Hour + time.Second)
		has(b, "k", 0)
	})
}

func TestLifetime(t *testing.T) {
	inBubble(t, []session.Option{session.IdleTimeout(time.Hour), session.Lifetime(3 * time.Hour)}, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		for range 6 {
			<-time.After(29 * time.Minute)
			b.putValue("k", 2)
			if b.cookie.MaxAge != 0 {
				t.Error(b.cookie)
			}
		}
		b.ok(func(s *session.Session) { noError(t, s.Regenerate(bg)) }) // does not prolong the Lifetime
		<-time.After(7 * time.Minute)
		has(b, "k", 0)
	})
}

// TestExpiresUnderWay: a session that expires while a request works counts as destroyed. The commit
// does not make it again.
func TestExpiresUnderWay(t *testing.T) {
	inBubble(t, []session.Option{session.IdleTimeout(time.Minute)}, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.status(409, func(s *session.Session) {
			get1[int](t, s, "k")
			<-time.After(2 * time.Minute)
			s.Put("k", 2)
		})
	})
}

// TestTouchesAreFew counts the writes of a page that is read all the time.
func TestTouchesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: sessionstore.NewMemory()}
		m, err := session.New(store, plain, session.IdleTimeout(time.Hour))
		noError(t, err)
		b := newBrowser(t, m)
		b.putValue("k", 1)
		for range 60 { // one hour
			<-time.After(time.Minute)
			b.ok(func(s *session.Session) { get1[int](t, s, "k") })
		}
		if store.touches < 8 || store.touches > 10 || store.commits != 1 {
			t.Errorf("%d touches, %d commits", store.touches, store.commits)
		}
	})
}

func (c *counting) Touch(ctx context.Context, key string, ttl time.Duration) error {
	c.add(&c.touches)
	return c.Store.Touch(ctx, key, ttl)
}
