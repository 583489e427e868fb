package facetest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestDo(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		want := errors.New("what fn returned")
		var fence uint64
		got := l.Do(t.Context(), "job", func(ctx context.Context) error {
			f, ok := padlock.FenceFrom(ctx)
			if fence = f; !ok || f == 0 {
				t.Errorf("FenceFrom says %d, %v", f, ok)
			}
			if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
				t.Errorf("inside of Do the name is not held: %v", err)
			}
			return want
		})
		if got != want {
			t.Errorf("Do says %v, want what its function returned", got)
		}
		if err := l.Do(t.Context(), "job", func(ctx context.Context) error {
			f, _ := padlock.FenceFrom(ctx)
			safety.Rises(t, f, fence)
			return nil
		}); err != nil {
			t.Error(err)
		}
		if _, ok := padlock.FenceFrom(t.Context()); ok {
			t.Error("a fence without a lock")
		}
	})
}

// The context of Do ends with the caller's and with the lock. Do waits for its function in any
// case: the lock is released after the function has returned.
func TestDoWaitsForItsFunction(t *testing.T) {
	for _, lose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			l := newLocker(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			errStopped := errors.New("stopped")
			if lose {
				store.request("extend", fails(driver.ErrLost))
			} else {
				time.AfterFunc(10*time.Second, cancel)
			}
			err := l.Do(ctx, "job", func(ctx context.Context) error {
				<-ctx.Done()
				if lose {
					wantOnly(t, context.Cause(ctx), "hold", padlock.ErrLost)
				}
				<-time.After(time.Minute) // it takes its time to stop
				if n := len(store.log("release")); n != 0 {
					t.Error("released while the function is at work")
				}
				return errStopped
			})
			cancel()
			if !errors.Is(err, errStopped) {
				t.Errorf("%v hides what the function returned", err)
			}
			if errors.Is(err, padlock.ErrExpired) != lose {
				t.Errorf("lost: %v; Do says %v", lose, err)
			}
			if lose {
				wantOnly(t, err, "release", padlock.ErrExpired)
			}
			if !free(t, store, "job") {
				t.Error("not released")
			}
		})
	}
}

// Do returns an error if the lock did not last, even if the function returned nil.
func TestDoReportsALossThatTheFunctionMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		store.request("extend", fails(driver.ErrUnavailable))
		err := l.Do(t.Context(), "job", func(context.Context) error { <-time.After(time.Minute); return nil })
		wantOnly(t, err, "release", padlock.ErrExpired)
	})
}

func TestDoReleasesOnPanicAndGoexit(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("of the function") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				l := newLocker(t, store)
				var recovered any
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recovered = recover() }()
					l.Do(t.Context(), "job", func(context.Context) error { leave(); return nil })
				}()
				<-done
				if (name == "panic") != (recovered == "of the function") {
					t.Errorf("recovered %v", recovered)
				}
				if !free(t, store, "job") || l.Stats().Held != 0 {
					t.Error("not released")
				}
			})
		})
	}
}

func TestDoPassesTheErrorOfAcquireOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		defer acquire(t, l, "job").Release()
		err := l.Do(t.Context(), "job", func(context.Context) error { t.Error("called without the lock"); return nil },
			padlock.Wait(time.Second))
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		if !strings.Contains(err.Error(), `"job"`) {
			t.Errorf("%q does not say which name", err)
		}
	})
}

// Taking a name again in the context of a lock on it would wait for itself.
func TestNestedLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l, other := newLocker(t, store), newLocker(t, store.Open())
		err := l.Do(t.Context(), "a", func(ctx context.Context) error {
			return l.Do(ctx, "b", func(ctx context.Context) error {
				ctx = context.WithoutCancel(ctx)
				for _, name := range []string{"a", "b"} {
					start := time.Now()
					_, err := l.Acquire(ctx, name)
					wantOnly(t, err, "acquire", padlock.ErrAlreadyHeld)
					_, err = l.TryAcquire(ctx, name, padlock.Shared())
					wantOnly(t, err, "acquire", padlock.ErrAlreadyHeld)
					err = l.Do(ctx, name, func(context.Context) error { t.Error("called"); return nil })
					wantOnly(t, err, "acquire", padlock.ErrAlreadyHeld)
					if time.Since(start) != 0 {
						t.Error("ErrAlreadyHeld was waited for")
					}
				}
				acquire(t, l, "c").Release()
				// Another Locker counts as another process, and so does a context that does not
				// come from the lock.
				_, err := other.Acquire(ctx, "a", padlock.Wait(time.Second))
				wantOnly(t, err, "acquire", padlock.ErrHeld)
				_, err = l.Acquire(t.Context(), "a", padlock.Wait(time.Second))
				wantOnly(t, err, "acquire", padlock.ErrHeld)
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Only a live hold counts.
func TestNestedLockAfterTheOuterEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New())
		h := acquire(t, l, "job", padlock.NoRenewal(), padlock.TTL(time.Second))
		ctx := context.WithoutCancel(h.Context())
		<-time.After(time.Second)
		again, err := l.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		if f, _ := padlock.FenceFrom(again.Context()); f != again.Fence() {
			t.Errorf("the inner lock has fence %d, its context %d", again.Fence(), f)
		}
		release(t, again)
		if h, err := l.Acquire(again.Context(), "job"); !errors.Is(err, context.Canceled) {
			t.Errorf("under the context of a released lock Acquire says %v, %v", h, err)
		}
		h.Release()
	})
}

// TryDo runs its function or returns ErrHeld at once.
func TestTryDo(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		ran, start := 0, time.Now()
		opts := make([]padlock.Option, 1, 8)
		opts[0] = padlock.Wait(time.Hour)
		do := func() error {
			return l.TryDo(t.Context(), "job", func(ctx context.Context) error { ran++; return nil }, opts...)
		}
		if err := do(); err != nil {
			t.Error(err)
		}
		k := acquire(t, l, "job")
		wantOnly(t, do(), "acquire", padlock.ErrHeld)
		if release(t, k); ran != 1 || time.Since(start) > time.Second {
			t.Errorf("it ran %d times, after %v", ran, time.Since(start))
		}
		if opts[:2][1] != nil {
			t.Error("TryDo has written into the caller's options")
		}
	})
}
