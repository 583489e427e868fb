package facetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// hasty is a store whose waits end at once.
type hasty struct{ *remote }

func (h hasty) Wait(ctx context.Context, q driver.Request, _ bool) (driver.Grant, error) {
	return driver.Grant{}, h.on(call{op: "wait", name: q.Name, ctx: ctx}, func(context.Context) error { return nil })
}

// A store that does not let a caller wait, or whose waits end at once, is asked from time to time.
// The wait ends when it has to, and the lock is granted when it is free.
func TestStoresThatRefuseToQueue(t *testing.T) {
	for what, refuse := range map[string]error{
		"the queue is full":  driver.ErrQueueFull,
		"held, from a wait":  &driver.HeldError{Waiters: 9},
		"waits end at once":  nil,
		"full, with details": fmt.Errorf("64 callers wait: %w", driver.ErrQueueFull),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := hasty{newRemote()}
				store.request("wait", fails(refuse))
				l := newLocker(t, store)
				other := acquire(t, newLocker(t, padlock.Store(connect(store.Store))), "job")
				const patience = 20 * time.Second
				began := time.Now()
				_, err := l.Acquire(t.Context(), "job", padlock.Wait(patience))
				if took := time.Since(began); !errors.Is(err, padlock.ErrHeld) || took != patience {
					t.Errorf("%v after %v, want ErrHeld after %v", err, took, patience)
				}
				if full := refuse != nil; strings.Contains(err.Error(), driver.ErrQueueFull.Error()) != full {
					t.Errorf("the error is %q, and should say why there was no wait: %v", err, full)
				}
				const leastPause = 10 * time.Millisecond // of a poller; the pauses are random
				if n := len(store.log()); n > 2*(100+int(patience/leastPause)) {
					t.Errorf("%d requests in %v", n, patience)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(patience, cancel)
				if _, err := l.Acquire(ctx, "job"); !errors.Is(err, padlock.ErrHeld) || !errors.Is(err, context.Canceled) || time.Since(began) != 2*patience {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				time.AfterFunc(patience, func() { other.Release() })
				if _, err := l.Acquire(t.Context(), "job"); err != nil || time.Since(began) > 3*patience+time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// Waits that end at once make neither a wait for a permit nor one for a promotion spin.
func TestOtherWaitsThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hasty{newRemote()}
		l, other := newLocker(t, store), newLocker(t, padlock.Store(connect(store.Store)))
		acquire(t, other, "slots", padlock.Slots(1))
		acquire(t, other, "reader", padlock.Shared())
		reader := acquire(t, l, "reader", padlock.Shared())
		for what, wait := range map[string]func(context.Context) error{
			"a permit":    func(ctx context.Context) error { _, err := l.Acquire(ctx, "slots", padlock.Slots(1)); return err },
			"a promotion": reader.Promote,
		} {
			before, began := len(store.log()), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 20*time.Second {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
			cancel()
			if n := len(store.log()) - before; n > 500 {
				t.Errorf("%s: %d requests in 20 s", what, n)
			}
		}
	})
}

// Whatever a store answers to whichever request, no call hangs, spins or leaves something behind.
func TestEachErrorFromEachCall(t *testing.T) {
	answers := []error{
		&driver.HeldError{}, driver.ErrExpired, driver.ErrLost, driver.ErrUncertain, driver.ErrInvalid, driver.ErrClosed, driver.ErrUnavailable,
		errors.Join(driver.ErrSpent, driver.ErrUncertain), errors.Join(driver.ErrSpent, driver.ErrUnavailable), driver.ErrQueueFull,
		driver.ErrPromotionConflict, driver.ErrFencesUsedUp, driver.ErrAlreadyHeld, errors.ErrUnsupported, context.Canceled, context.DeadlineExceeded,
		errReset,
	}
	for _, op := range []string{"acquire", "wait", "extend", "release", "convert", "pass"} {
		for _, answer := range answers {
			t.Run(fmt.Sprintf("%s/%.20v", op, answer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newRemote()
					other := acquire(t, newLocker(t, padlock.Store(connect(store.Store))), "held")
					l := padlock.New(store, padlock.TTL(10*time.Second), padlock.Detached())
					lock := acquire(t, l, "job")
					reader := acquire(t, l, "reader", padlock.Shared())
					store.request(op, fails(answer))
					began := time.Now()
					l.Acquire(t.Context(), "held", padlock.Wait(2*time.Second))
					time.AfterFunc(time.Second, func() { other.Release() })
					l.Acquire(t.Context(), "held", padlock.Wait(2*time.Second))
					l.Acquire(t.Context(), "free", padlock.Wait(time.Second))
					l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.Wait(time.Second))
					l.Acquire(t.Context(), "slots", padlock.Slots(2), padlock.Wait(time.Second))
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					lock.Check(ctx)
					lock.Extend(ctx, 20*time.Second)
					reader.Promote(ctx)
					reader.Demote(ctx)
					cancel()
					<-time.After(30 * time.Second) // renewals fail
					lock.Release()
					reader.Release()
					ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					l.Close(ctx)
					if took := time.Since(began); took > 2*time.Minute {
						t.Errorf("the calls took %v", took)
					}
					if n := len(store.log()); n > 1000 {
						t.Errorf("%d requests", n)
					}
				})
			})
		}
	}
}
