package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

type valueKey struct{}

// A joined context ends with the caller's context, with the lock, and with its cancel function. It
// has the values of the one and the fence of the other.
func TestJoin(t *testing.T) {
	errAway := errors.New("the client went away")
	for name, c := range map[string]struct {
		end  func(t *testing.T, l *remote, k *padlock.Lock, goAway context.CancelCauseFunc, cancel func())
		want []error
	}{
		"the caller's context ends": {
			func(_ *testing.T, _ *remote, _ *padlock.Lock, goAway context.CancelCauseFunc, _ func()) {
				goAway(errAway)
			}, []error{errAway},
		},
		"the lock is lost": {
			func(t *testing.T, store *remote, k *padlock.Lock, _ context.CancelCauseFunc, _ func()) {
				store.request("extend", fails(driver.ErrLost))
				if err := k.Check(t.Context()); err == nil {
					t.Error("the lock is not lost")
				}
			}, []error{padlock.ErrLost},
		},
		"the lock is released": {
			func(t *testing.T, _ *remote, k *padlock.Lock, _ context.CancelCauseFunc, _ func()) { release(t, k) },
			[]error{padlock.ErrReleased},
		},
		"the work is done": {
			func(_ *testing.T, _ *remote, _ *padlock.Lock, _ context.CancelCauseFunc, cancel func()) { cancel() },
			[]error{context.Canceled},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				l := newLocker(t, store)
				k := acquire(t, l, "job")
				request, goAway := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "of the request"))
				defer goAway(nil)
				ctx, cancel := k.Join(request)
				defer cancel()
				if fence, ok := padlock.FenceFrom(ctx); !ok || fence != k.Fence() || ctx.Value(valueKey{}) != "of the request" {
					t.Errorf("fence %d, %v; value %v", fence, ok, ctx.Value(valueKey{}))
				}
				if synctest.Wait(); ctx.Err() != nil {
					t.Fatal(ctx.Err())
				}
				c.end(t, store, k, goAway, cancel)
				synctest.Wait()
				for _, want := range c.want {
					if cause := context.Cause(ctx); !errors.Is(cause, want) {
						t.Errorf("%v, want %v", cause, want)
					}
				}
				if name == "the work is done" && k.Context().Err() != nil {
					t.Error("the cancel function has ended the lock")
				}
			})
		})
	}
}

// If the lock is over already, the joined context is over when Join returns.
func TestJoinOfALockThatIsOver(t *testing.T) {
	l := newLocker(t, newRemote())
	k := acquire(t, l, "job")
	release(t, k)
	var locks *padlock.Locks
	for _, join := range []func(context.Context) (context.Context, context.CancelFunc){k.Join, new(padlock.Lock).Join, locks.Join} {
		ctx, cancel := join(t.Context())
		defer cancel()
		if !errors.Is(context.Cause(ctx), padlock.ErrReleased) {
			t.Errorf("%v", context.Cause(ctx))
		}
	}
}

// In a joined context, the locks of both contexts are known to be held.
func TestJoinFindsTheLocksOfBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		a, b := acquire(t, l, "a"), acquire(t, l, "b")
		ctx, cancel := b.Join(a.Context())
		defer cancel()
		c, err := l.Acquire(ctx, "c")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			_, err := l.TryAcquire(c.Context(), name)
			wantOnly(t, err, "acquire", padlock.ErrAlreadyHeld)
		}
		release(t, a)
		again, err := l.Acquire(context.WithoutCancel(c.Context()), "a")
		if err != nil {
			t.Fatal(err)
		}
		if fence, ok := padlock.FenceFrom(ctx); !ok || fence != b.Fence() {
			t.Errorf("fence %d, want %d", fence, b.Fence())
		}
		if grants := padlock.GrantsFrom(c.Context()); len(grants) != 3 || grants["b"].Fence() != b.Fence() {
			t.Errorf("grants %v", grants)
		}
		release(t, again)
		release(t, c)
		release(t, b)
	})
}

// The context of several locks ends with any of them and with the caller's context.
func TestJoinOfSeveralLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		locks, err := l.AcquireAll(t.Context(), []string{"b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		request, goAway := context.WithTimeout(t.Context(), time.Minute)
		defer goAway()
		first, cancel := locks.Join(request)
		defer cancel()
		second, cancel := locks.Join(t.Context())
		defer cancel()
		if fence, _ := padlock.FenceFrom(first); fence != locks.Lock("b").Fence() {
			t.Errorf("fence %d, want that of b", fence)
		}
		<-time.After(time.Minute)
		if synctest.Wait(); first.Err() != context.DeadlineExceeded || second.Err() != nil {
			t.Errorf("%v, %v", first.Err(), second.Err())
		}
		release(t, locks.Lock("a"))
		if synctest.Wait(); !errors.Is(context.Cause(second), padlock.ErrReleased) {
			t.Errorf("%v", context.Cause(second))
		}
		_ = locks.Release()
	})
}

// A permit is inside of the lock whose context its caller gives.
func TestSlotsWithinALock(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		outer := acquire(t, l, "outer")
		err := l.Do(outer.Context(), "job", func(ctx context.Context) error {
			if grants := padlock.GrantsFrom(ctx); len(grants) != 2 {
				t.Errorf("the grants are %v", grants)
			}
			_, err := l.TryAcquire(ctx, "outer")
			return err
		}, padlock.Slots(2))
		if !errors.Is(err, padlock.ErrAlreadyHeld) {
			t.Errorf("the error is %v", err)
		}
	})
}
