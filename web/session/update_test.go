package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// TestUpdateKeepsItsPromisesInExclusive: an Exclusive request has the lock already when it calls
// Update. Even then an error of fn saves nothing, the writes of fn are saved at once, and fn does
// not see the request's unsaved Puts.
func TestUpdateKeepsItsPromisesInExclusive(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		oops := errors.New("oops")
		b.ok(func(s *session.Session) {
			noError(t, s.Put("mine", 1))
			err := s.Update(bg, func(_ context.Context, tx *session.Session) error { tx.Put("k", 2); return oops })
			if err != oops {
				t.Error(err)
			}
		}, session.Exclusive)
		has(b, "k", 1)
		b.ok(func(s *session.Session) {
			noError(t, s.Put("k", 9))
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
				if n := get1[int](t, tx, "k"); n != 1 {
					t.Errorf("fn sees %d", n)
				}
				return tx.Put("l", 2)
			}))
			if n := get1[int](t, s, "l"); n != 2 {
				t.Errorf("the request does not see what was saved: %d", n)
			}
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("m", get1[int](t, tx, "l")+1) }))
		}, session.Exclusive)
		has(b, "k", 9)
		has(b, "m", 3)
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(b.cookie)
		recovering(b.m.With(session.Exclusive)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s := session.From(r.Context())
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("saved", 1) }))
			panic("oops")
		}))).ServeHTTP(httptest.NewRecorder(), r)
		has(b, "saved", 1)
	})
}

// TestUpdateInExclusiveOfGoroutines: Updates in several goroutines share the lock of their request.
func TestUpdateInExclusiveOfGoroutines(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("n", 0)
		b.ok(func(s *session.Session) {
			get1[int](t, s, "n")
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 5 {
						noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error { return tx.Put("n", get1[int](t, tx, "n")+1) }))
					}
				})
			}
			wg.Wait()
		}, session.Exclusive)
		has(b, "n", 20)
		b.ok(func(s *session.Session) { get1[int](t, s, "n") }, session.Exclusive) // the lock was released
	})
}

// TestGoroutinesMakeOneSession: a request has no session, and several of its goroutines write. The
// first goroutine makes the session, and the others write into that session.
func TestGoroutinesMakeOneSession(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			for _, locks := range []session.Option{session.Locker(newLocker(t)), session.Delta} {
				created := 0
				m, err := session.New(open(), plain, locks, session.OnEvent(func(_ context.Context, e session.Event) {
					if e.Kind == session.EventCreated {
						created++
					}
				}))
				noError(t, err)
				b := newBrowser(t, m)
				b.ok(func(s *session.Session) {
					var wg, begun sync.WaitGroup
					begun.Add(3)
					update := func(key string, f func(tx *session.Session) error) {
						wg.Go(func() {
							first := true
							noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
								if first {
									begun.Done()
									begun.Wait()
								}
								first = false
								return f(tx)
							}))
						})
					}
					update("a", func(tx *session.Session) error { return tx.Put("a", 1) })
					update("b", func(tx *session.Session) error { return tx.Put("b", 1) })
					update("c", func(tx *session.Session) error { _, err := tx.Incr(bg, "c", 1); return err })
					wg.Go(func() { begun.Wait(); must[int64](t)(s.Incr(bg, "d", 1)) })
					wg.Wait()
				})
				for _, key := range []string{"a", "b", "c", "d"} {
					has(b, key, 1)
				}
				if created != 1 {
					t.Errorf("%d sessions were made", created)
				}
			}
		})
	}
}

// TestUpdateBesideDestroy: a goroutine of the request destroys the session during an Update. Update
// returns ErrDestroyed, and the session stays destroyed.
func TestUpdateBesideDestroy(t *testing.T) {
	for _, there := range []bool{true, false} {
		onStores(t, func(t *testing.T, b *browser) {
			if there {
				b.putValue("k", 1)
			}
			b.do(func(s *session.Session) {
				inside, ended := make(chan bool), make(chan bool)
				go func() {
					<-inside
					noError(t, s.Destroy(context.Background()))
					close(ended)
				}()
				first := true
				err := s.Update(bg, func(_ context.Context, tx *session.Session) error {
					err := tx.Put("k", 2)
					if first {
						close(inside)
						<-ended
					}
					first = false
					return err
				})
				if !errors.Is(err, session.ErrDestroyed) {
					t.Errorf("Update: %v", err)
				}
			})
			has(b, "k", 0)
		})
	}
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		b.ok(func(s *session.Session) { // here the write is saved before Destroy ends the session
			noError(t, s.Update(bg, func(_ context.Context, tx *session.Session) error {
				_, err := tx.Incr(bg, "n", 1)
				noError(t, s.Destroy(bg))
				return err
			}))
		})
		has(b, "k", 0)
	})
}

// TestFailedUpdateIsNotAnswered200: if an Update is refused, the answer is replaced, unless the
// handler calls IgnoreRefused.
func TestFailedUpdateIsNotAnswered200(t *testing.T) {
	onStores(t, func(t *testing.T, b *browser) {
		b.putValue("k", 1)
		big := make([]int, 2000)
		put := func(_ context.Context, tx *session.Session) error { return tx.Put("big", big) }
		b.status(503, func(s *session.Session) { s.Update(bg, put) })
		b.ok(func(s *session.Session) { s.Update(bg, put); s.IgnoreRefused(); s.Put("k", 2) })
		has(b, "k", 2)
	}, session.MaxSize(1000))
}

// TestUpdateInsideUpdate: an Update inside of an Update of the same session would wait for itself.
// With the context that fn gets, it is refused at once.
func TestUpdateInsideUpdate(t *testing.T) {
	nothing := func(context.Context, *session.Session) error { return nil }
	for _, locked := range []bool{true, false} {
		opts := []session.Option{plain, session.MaxWait(2 * time.Second)}
		if locked {
			opts = append(opts, session.Locker(newLocker(t)))
		}
		store := sessionstore.NewMemory()
		m, second := must[*session.Manager](t)(session.New(store, opts...)), must[*session.Manager](t)(session.New(store, opts...))
		calls := map[string]func(ctx context.Context, s, tx *session.Session) error{
			"on the session": func(ctx context.Context, s, _ *session.Session) error { return s.Update(ctx, nothing) },
			"on tx":          func(ctx context.Context, _, tx *session.Session) error { return tx.Update(ctx, nothing) },
			"loaded by its token": func(ctx context.Context, s, _ *session.Session) error {
				return m.Load(ctx, s.Token()).Update(ctx, nothing)
			},
		}
		if locked {
			calls["with a second Manager"] = func(ctx context.Context, s, _ *session.Session) error {
				return second.Load(ctx, s.Token()).Update(ctx, nothing)
			}
		}
		for name, call := range calls {
			for _, mode := range []session.Mode{session.Delta, session.Exclusive} {
				if mode == session.Exclusive && !locked {
					continue
				}
				t.Run(fmt.Sprint(name, " ", locked, " ", mode), func(t *testing.T) {
					b := newBrowser(t, m)
					b.putValue("k", 1)
					b.do(func(s *session.Session) {
						var inner error
						err := s.Update(bg, func(ctx context.Context, tx *session.Session) error {
							inner = call(ctx, s, tx)
							return inner
						})
						if !errors.Is(inner, padlock.ErrAlreadyHeld) || !errors.Is(err, padlock.ErrAlreadyHeld) || session.Status(inner) != 500 {
							t.Errorf("inside: %v (status %d); outside: %v", inner, session.Status(inner), err)
						}
						if strings.Contains(fmt.Sprint(inner), "unavailable") {
							t.Errorf("the text names another cause: %v", inner)
						}
					}, mode)
					has(b, "k", 1)
				})
			}
		}
	}
}

// TestCallsInsideUpdate: other calls that need the session's lock are refused with the context of
// fn, too. Another session can be updated inside.
func TestCallsInsideUpdate(t *testing.T) {
	m := must[*session.Manager](t)(session.New(sessionstore.NewMemory(), session.Locker(newLocker(t)), plain, session.MaxWait(2*time.Second)))
	b, other := newBrowser(t, m), newBrowser(t, m)
	b.putValue("k", 1)
	other.putValue("k", 1)
	var token string
	other.ok(func(s *session.Session) { token = s.Token() })
	b.status(500, func(s *session.Session) {
		noError(t, s.Update(bg, func(ctx context.Context, tx *session.Session) error {
			if _, err := s.Incr(ctx, "n", 1); !errors.Is(err, padlock.ErrAlreadyHeld) {
				t.Errorf("Incr: %v", err)
			}
			if _, err := tx.Incr(ctx, "n", 1); err != nil {
				t.Errorf("Incr of tx: %v", err)
			}
			return m.Load(ctx, token).Update(ctx, func(_ context.Context, tx *session.Session) error { return tx.Put("k", 2) })
		}))
	})
	has(b, "n", 1)
	has(other, "k", 2)
}
