package facetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("release", takes(10*time.Millisecond))
		l := padlock.New(store)
		var held []*padlock.Lock
		for i := range 500 {
			held = append(held, acquire(t, l, fmt.Sprint(i)))
		}
		start := time.Now()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("500 releases of 10ms took %v", d)
		}
		for _, h := range held {
			wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrReleased)
			release(t, h)
		}
		if states, err := store.Store.Open().List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("%d locks are left; %v", len(states), err)
		}
		_, err := store.Store.Inspect(t.Context(), "0")
		if !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("the store is still open: %v", err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("the second Close says %v", err)
		}
	})
}

func TestAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		key := travel(t, acquire(t, l, "exported"))
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := l.Acquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrClosed)
		_, err = l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrClosed)
		err = l.Do(t.Context(), "job", func(context.Context) error { t.Error("called"); return nil })
		wantOnly(t, err, "acquire", padlock.ErrClosed)
		_, err = l.Adopt(t.Context(), key)
		wantOnly(t, err, "adopt", padlock.ErrClosed)
		_, err = l.Inspect(t.Context(), "job")
		wantOnly(t, err, "inspect", padlock.ErrClosed)
	})
}

// A closed Locker sends nothing, even if its store is open.
func TestAfterCloseOfALockerOnASharedStore(t *testing.T) {
	store := newRemote()
	l := padlock.New(store, padlock.KeepStoreOpen())
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := l.Acquire(t.Context(), "job")
	wantOnly(t, err, "acquire", padlock.ErrClosed)
	if n := len(store.log("acquire")); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := padlock.New(s)
		foreign := padlock.New(s, padlock.KeepStoreOpen())
		h := acquire(t, foreign, "job")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{context.Background(), ctx, ctx} {
			for _, opts := range [][]padlock.Option{nil, {padlock.Wait(time.Hour)}} {
				wg.Go(func() {
					_, err := l.Acquire(ctx, "job", opts...)
					wantOnly(t, err, "acquire", padlock.ErrClosed)
				})
				synctest.Wait()
			}
		}
		release(t, acquire(t, foreign, "another"))
		start := time.Now()
		done := make(chan error)
		go func() { done <- l.Close(t.Context()) }()
		wg.Wait()
		if err := <-done; err != nil || time.Since(start) != 0 {
			t.Errorf("Close took %v: %v", time.Since(start), err)
		}
		_ = h
	})
}

// Close waits for the clean-ups that go on in the background.
func TestCloseJoinsCleanUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", lost)
		store.request("release", first(5, takes(2*time.Second)))
		l := padlock.New(store)
		l.TryAcquire(t.Context(), "job")
		synctest.Wait()
		start := time.Now()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if time.Since(start) < time.Second {
			t.Error("Close did not wait")
		}
		if s, err := store.Store.Open().Inspect(t.Context(), "job"); err != nil || len(s.Holds) != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		if s := l.Stats(); s.CleanUps != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Close gives up when its context ends, returns that error, and leaves no goroutine.
func TestCloseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", first(3, lost))
		l := padlock.New(store)
		l.TryAcquire(t.Context(), "lost")
		store.request("release", silent)
		var held []*padlock.Lock
		for i := range 100 {
			held = append(held, acquire(t, l, fmt.Sprint(i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := l.Close(ctx)
		wantOnly(t, err, "close", context.DeadlineExceeded)
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("Close took %v", d)
		}
		// These locks are no longer renewed, and their contexts end in time.
		<-time.After(padlock.DefaultTTL)
		for _, h := range held {
			if h.Context().Err() == nil {
				t.Fatal("the lease is over and the context is not")
			}
		}
	})
}

// The same is true if the few releases that are left begin at the same time.
func TestCloseGivesUpOnAFewReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store)
		acquire(t, l, "job")
		store.request("release", silent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		wantOnly(t, l.Close(ctx), "close", context.DeadlineExceeded)
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("Close took %v", d)
		}
	})
}

// Close begins after the grant and before the function has its context.
func TestCloseBetweenTheGrantAndTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *padlock.Locker
		closed := make(chan error, 1)
		l = padlock.New(newRemote(), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
			if e.Kind == padlock.EventAcquired {
				go func() { closed <- l.Close(context.Background()) }()
				synctest.Wait()
			}
		})))
		err := l.Do(t.Context(), "job", func(ctx context.Context) error {
			wantOnly(t, context.Cause(ctx), "hold", padlock.ErrClosed)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// Close reports a function of Do that does not stop, and does not wait for it for ever.
func TestCloseGivesUpOnAFunctionThatDoesNotStop(t *testing.T) {
	for range 10 {
		closeOverAFunctionThatDoesNotStop(t)
	}
}

func closeOverAFunctionThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(newRemote())
		done := make(chan error)
		go func() {
			done <- l.Do(context.Background(), "job", func(ctx context.Context) error {
				<-time.After(time.Hour)
				return nil
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantOnly(t, l.Close(ctx), "close", context.DeadlineExceeded)
		if err := <-done; !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("its lock was given up, and Do says %v", err)
		}
	})
}

// An exported lock survives Close in the store; in this process it ends in time.
func TestCloseLeavesExportedLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := padlock.New(store), newLocker(t, store.Open())
		h := acquire(t, l, "job")
		ctx, key := h.Context(), travel(t, h)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		adopted, err := other.Adopt(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(padlock.DefaultTTL)
		if ctx.Err() == nil {
			t.Error("the context of the exporter goes on for ever")
		}
		release(t, adopted)
	})
}

// An acquire that is under way when Close begins leaves no lock behind.
func TestCloseDuringAnAcquire(t *testing.T) {
	for name, how := range map[string]func(*remote){
		"late request": func(r *remote) { r.request("acquire", takes(time.Second)) },
		"late reply":   func(r *remote) { r.reply("acquire", takes(time.Second)) },
		"lost reply": func(r *remote) {
			r.reply("acquire", func(ctx context.Context, _ int) error { sleep(ctx, time.Second); return errReset })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				how(store)
				l := padlock.New(store)
				done := make(chan error)
				go func() { _, err := l.Acquire(context.Background(), "job"); done <- err }()
				synctest.Wait()
				closed := make(chan error, 1)
				go func() { closed <- l.Close(context.Background()) }()
				if err := <-done; !errors.Is(err, padlock.ErrClosed) && !errors.Is(err, padlock.ErrUncertain) {
					t.Errorf("Acquire says %v", err)
				}
				if err := <-closed; err != nil {
					t.Errorf("Close says %v", err)
				}
				if s, err := store.Store.Open().Inspect(t.Context(), "job"); err != nil || len(s.Holds) != 0 {
					t.Errorf("left behind: %+v, %v", s, err)
				}
			})
		})
	}
}

// Do keeps its promise during Close: the lock is released when the function has returned. The
// context of the function ends with Close.
func TestCloseWaitsForTheFunctionsOfDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store)
		done := make(chan error)
		go func() {
			done <- l.Do(context.Background(), "job", func(ctx context.Context) error {
				<-ctx.Done()
				wantOnly(t, context.Cause(ctx), "hold", padlock.ErrClosed)
				<-time.After(time.Minute)
				if len(store.log("release")) > 0 {
					t.Error("released while the function is at work")
				}
				return nil
			})
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- l.Close(context.Background()) }()
		if err := <-done; err != nil {
			t.Errorf("Do says %v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close says %v", err)
		}
		if s, err := store.Store.Open().Inspect(t.Context(), "job"); err != nil || len(s.Holds) != 0 {
			t.Errorf("left behind: %+v, %v", s, err)
		}
	})
}

func TestSharedStoreStaysOpen(t *testing.T) {
	store := memstore.New()
	l, other := padlock.New(store, padlock.KeepStoreOpen()), newLocker(t, store)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, other, "job"))
}

// Close waits for calls that release a lock or use a key, and closes the store after them.
func TestCloseWaitsForCallsUnderWay(t *testing.T) {
	for op, call := range map[string]func(*padlock.Locker, *padlock.Lock, padlock.Key) error{
		"release": func(_ *padlock.Locker, h *padlock.Lock, _ padlock.Key) error { return h.Release() },
		"release a key": func(l *padlock.Locker, _ *padlock.Lock, key padlock.Key) error {
			return l.ReleaseKey(context.Background(), key)
		},
		"extend": func(l *padlock.Locker, _ *padlock.Lock, key padlock.Key) error {
			_, err := l.ExtendKey(context.Background(), key, time.Minute)
			return err
		},
		"adopt": func(l *padlock.Locker, _ *padlock.Lock, key padlock.Key) error {
			if _, err := l.Adopt(context.Background(), key); !errors.Is(err, padlock.ErrClosed) {
				return fmt.Errorf("it says %w", err)
			}
			return nil
		},
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				server := store.Store.Open()
				other := newLocker(t, connect(server))
				key := travel(t, acquire(t, other, "key"))
				l := padlock.New(store)
				h := acquire(t, l, "job")
				for _, op := range []string{"acquire", "release", "extend"} {
					store.request(op, takes(time.Second))
				}
				done := make(chan error, 1)
				go func() { done <- call(l, h, key) }()
				synctest.Wait()
				if err := l.Close(t.Context()); err != nil {
					t.Errorf("Close: %v", err)
				}
				synctest.Wait() // the call ends at the same moment as Close
				select {
				case err := <-done:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("Close did not wait")
				}
				if s, err := server.Inspect(t.Context(), "job"); err != nil || len(s.Holds) != 0 {
					t.Errorf("left behind: %+v, %v", s, err)
				}
			})
		})
	}
}

// A clean-up that Release leaves behind is done before Close returns.
func TestCloseDuringAReleaseWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := newRemote(), recorder{}
		server := store.Store.Open()
		l := padlock.New(store, padlock.Observe(padlock.ObserverFunc(rec.on)))
		h := acquire(t, l, "job")
		store.request("release", first(3, func(ctx context.Context, n int) error { return errors.Join(sleep(ctx, time.Second), errReset) }))
		go h.Release()
		synctest.Wait()
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if s, err := server.Inspect(t.Context(), "job"); err != nil || len(s.Holds) != 0 {
			t.Errorf("left behind: %+v, %v", s, err)
		}
		if st := l.Stats(); st.CleanUpsDropped != 0 || st.Uncertain != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A key that Export returned during Close would stand for a lock that Close releases. A conversion
// does not begin then, either.
func TestExportDuringCloseAndRelease(t *testing.T) {
	for what, begin := range map[string]func(*padlock.Locker, *padlock.Lock){
		"Close":   func(l *padlock.Locker, _ *padlock.Lock) { l.Close(context.Background()) },
		"Release": func(_ *padlock.Locker, h *padlock.Lock) { h.Release() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				l := newLocker(t, store)
				h := acquire(t, l, "job")
				store.request("extend", deaf) // so that the release waits for a renewal
				for len(store.log("extend")) == 0 {
					<-time.After(100 * time.Millisecond)
				}
				done := make(chan bool)
				go func() { defer close(done); begin(l, h) }()
				synctest.Wait()
				defer func() { <-done }()
				if _, err := h.Export(context.Background()); !errors.Is(err, padlock.ErrClosed) && !errors.Is(err, padlock.ErrReleased) {
					t.Errorf("Export: %v", err)
				}
				if err := h.Demote(t.Context()); !errors.Is(err, padlock.ErrReleased) || len(store.log("convert")) != 0 {
					t.Errorf("Demote: %v", err)
				}
			})
		})
	}
}

// Programs often call Close with the context whose end was the reason to stop. Close releases the
// locks nevertheless, if the store replies.
func TestCloseWithAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		server := store.Store.Open()
		store.request("release", takes(10*time.Millisecond))
		l := padlock.New(store)
		for i := range 100 {
			acquire(t, l, fmt.Sprint(i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		checkNothingLeft(t, server)
	})
}

// A silent store does not keep such a Close for long.
func TestCloseWithAContextThatHasEndedAndASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := padlock.New(store)
		for i := range 100 {
			acquire(t, l, fmt.Sprint(i))
		}
		store.request("release", silent)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if err := l.Close(ctx); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("Close took %v: %v", time.Since(start), err)
		}
	})
}

// Close ends an AcquireAll that waits, and the error is ErrClosed, not that of the locks which
// AcquireAll has already and which Close releases.
func TestCloseWhileAcquireAllWaits(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l, other := padlock.New(s), padlock.New(s, padlock.KeepStoreOpen())
		release := acquire(t, other, "b").Release
		done := make(chan error, 1)
		go func() {
			_, err := l.AcquireAll(context.Background(), []string{"a", "b"})
			done <- err
		}()
		synctest.Wait()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantOnly(t, <-done, "acquire", padlock.ErrClosed)
		release()
		other.Close(t.Context())
	})
}
