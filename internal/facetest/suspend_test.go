package facetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// suspendable is the clock of the bubble on a machine that can be suspended: time passes then, and
// the timers of the bubble stand still.
type suspendable struct {
	driver.Clock
	asleep atomic.Int64
}

func newSuspendable() *suspendable { return &suspendable{Clock: driver.SystemClock()} }

func (c *suspendable) Now() driver.Instant {
	return c.Clock.Now().Add(time.Duration(c.asleep.Load()))
}

func (*suspendable) Nap() time.Duration { return 500 * time.Millisecond }

func (c *suspendable) suspend(d time.Duration) { c.asleep.Add(int64(d)) }

// The machine was suspended: time has passed and no timer fired. A method of the lock notices that
// at once, and the context ends within a nap of the clock.
func TestSuspendedTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newSuspendable()
		store := memstore.New(memstore.WithClock(clock))
		l := newLocker(t, store, padlock.WithClock(clock))
		asked, watched := acquire(t, l, "asked"), acquire(t, l, "watched")
		ctx := watched.Context()
		clock.suspend(time.Minute)
		synctest.Wait()
		select {
		case <-ctx.Done():
			t.Fatal("the context ended before any timer fired; the test is worth nothing")
		default:
		}
		if asked.Remaining() != 0 {
			t.Errorf("%v remain after a minute of suspend", asked.Remaining())
		}
		wantOnly(t, asked.Check(t.Context()), "check", padlock.ErrExpired)
		wantOnly(t, asked.Extend(t.Context(), 0), "extend", padlock.ErrExpired)
		if _, err := asked.Export(t.Context()); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("Export says %v", err)
		}
		<-time.After(clock.Nap())
		synctest.Wait()
		wantOnly(t, context.Cause(ctx), "hold", padlock.ErrLost, padlock.ErrExpired)
		wantOnly(t, asked.Release(), "release", padlock.ErrExpired)
		wantOnly(t, watched.Release(), "release", padlock.ErrExpired)
	})
}

// The function Err of a context looks at the clock: a loop that calls it after a suspend does no
// further step, even if it runs before any timer fires.
func TestErrLooksAtTheClock(t *testing.T) {
	for name, contextOf := range map[string]func(*testing.T, *padlock.Locker) context.Context{
		"Lock": func(t *testing.T, l *padlock.Locker) context.Context { return acquire(t, l, "job").Context() },
		"Lock.Join": func(t *testing.T, l *padlock.Locker) context.Context {
			ctx, cancel := acquire(t, l, "job").Join(t.Context())
			t.Cleanup(cancel)
			return ctx
		},
		"Locks": func(t *testing.T, l *padlock.Locker) context.Context {
			locks, err := l.AcquireAll(t.Context(), []string{"a", "b"})
			if err != nil {
				t.Fatal(err)
			}
			return locks.Context()
		},
		"Do": func(t *testing.T, l *padlock.Locker) context.Context {
			inside, end := make(chan context.Context), make(chan struct{})
			go l.Do(t.Context(), "job", func(ctx context.Context) error {
				inside <- ctx
				<-end
				return nil
			})
			t.Cleanup(func() { close(end) })
			return <-inside
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			clock := newSuspendable()
			l := newLocker(t, memstore.New(memstore.WithClock(clock)), padlock.WithClock(clock))
			ctx := contextOf(t, l)
			if ctx.Err() != nil {
				t.Fatalf("%s: %v", name, ctx.Err())
			}
			below, cancel := context.WithCancel(ctx)
			defer cancel()
			clock.suspend(time.Minute)
			synctest.Wait()
			if ctx.Err() != context.Canceled {
				t.Errorf("%s: after a minute of suspend, Err returns %v", name, ctx.Err())
			}
			if cause := context.Cause(ctx); !errors.Is(cause, padlock.ErrLost) {
				t.Errorf("%s: the cause is %v", name, cause)
			}
			if <-below.Done(); below.Err() == nil {
				t.Errorf("%s: the context below has not ended", name)
			}
		})
	}
}

// The function of Do may return, and the release may fail, before any timer fires after a suspend.
// Then Do reports the loss, even if it is certain that no request reached the store.
func TestReleaseAfterASuspendReportsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newSuspendable()
		store := newRemote()
		l := newLocker(t, store, padlock.WithClock(clock))
		done := make(chan error, 1)
		go func() {
			done <- l.Do(t.Context(), "job", func(context.Context) error {
				store.reply("release", first(3, func(context.Context, int) error { return driver.ErrUnavailable }))
				clock.suspend(time.Minute)
				return nil
			})
		}()
		if err := <-done; !errors.Is(err, padlock.ErrLost) || !errors.Is(err, padlock.ErrUnavailable) {
			t.Errorf("Do returns %v, want the loss and the silence of the store", err)
		}
	})
}

// A lock is granted in a context that comes from another lock by Join. Before Do asks for the
// context of the new lock, both have ended, and no timer has fired since. Nothing is locked twice,
// and an observer may ask for Err too.
func TestTakenInAJoinedContextThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newSuspendable()
		request, end := context.WithCancel(t.Context())
		var joined context.Context
		l := newLocker(t, memstore.New(memstore.WithClock(clock)), padlock.WithClock(clock),
			padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
				switch {
				case e.Kind == padlock.EventAcquired && e.Name == "inner":
					clock.suspend(time.Minute)
					end()
				case joined != nil:
					joined.Err()
				}
			})))
		outer := acquire(t, l, "outer")
		defer outer.Release()
		joined, stop := outer.Join(request)
		defer stop()
		l.Do(joined, "inner", func(ctx context.Context) error {
			if ctx.Err() == nil {
				t.Error("the context of a lock in an ended context has not ended")
			}
			return nil
		})
	})
}

// A suspend that the lease outlasts costs nothing but the time.
func TestAShortSuspendIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newSuspendable()
		store := memstore.New(memstore.WithClock(clock))
		l := newLocker(t, store, padlock.WithClock(clock))
		h := acquire(t, l, "job")
		before := h.Remaining()
		clock.suspend(20 * time.Second)
		if d := before - h.Remaining(); d != 20*time.Second {
			t.Errorf("a suspend of 20s cost %v", d)
		}
		<-time.After(time.Second) // the renewal has been due for a long time
		synctest.Wait()
		if left := h.Remaining(); left < 28*time.Second {
			t.Errorf("%v remain: it was not renewed", left)
		}
		release(t, h)
	})
}

// After a suspend the release returns the truth, even if its reply is lost.
func TestReleaseAfterASuspendIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newSuspendable()
		store := connect(memstore.New(memstore.WithClock(clock)))
		store.reply("release", first(1, lost))
		l := newLocker(t, store, padlock.WithClock(clock))
		h := acquire(t, l, "job")
		clock.suspend(time.Hour)
		if err := h.Release(); err == nil {
			t.Error("the lock was over for an hour, and Release says that it was held until now")
		}
	})
}
