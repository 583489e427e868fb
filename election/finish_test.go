package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The lock is lost while the function works, and the function returns nil before the loss is
// noticed. Another candidate may have done the same work, so this candidate campaigns again.
func TestLossThatTheFunctionDoesNotNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		var told []error
		finish := make(chan struct{})
		a := w.joinWith(t, "a", func(ctx context.Context) error {
			<-finish
			if err := ctx.Err(); err != nil {
				t.Errorf("the context has ended: %v", err)
			}
			return nil
		}, election.OnError(func(err error) { told = append(told, err) }))
		w.evict(t)
		finish <- struct{}{}
		synctest.Wait()
		if len(told) != 1 || !errors.Is(told[0], padlock.ErrLost) {
			t.Errorf("OnError got %v, want one ErrLost", told)
		}
		if n := w.terms.Load(); n != 1 {
			t.Errorf("a new campaign began %d times without a pause", n-1)
		}
		wait(time.Minute)
		if n := w.terms.Load(); n != 2 {
			t.Errorf("after a pause there were %d terms, want 2", n)
		}
		close(finish)
		if err := <-a.result; err != nil || len(told) != 1 {
			t.Errorf("Run returns %v, OnError got %v", err, told)
		}
		a.locker.Close(t.Context())
	})
}

// A release that fails does not show that the work was not protected, so the work is not repeated.
func TestFinishesWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deaf{Store: memstore.New()}
		w := &world{store: store}
		var told []error
		finish := make(chan struct{})
		a := w.joinWith(t, "a", func(context.Context) error { <-finish; return nil },
			election.OnError(func(err error) { told = append(told, err) }))
		store.now.Store(true)
		close(finish)
		if err := <-a.result; err != nil || w.terms.Load() != 1 {
			t.Errorf("after %d terms, Run returns %v", w.terms.Load(), err)
		}
		if len(told) != 1 || !errors.Is(told[0], padlock.ErrUnavailable) {
			t.Errorf("OnError got %v, want one ErrUnavailable", told)
		}
		store.now.Store(false)
		b := w.join(t, "b") // the Locker goes on with the release
		wait(time.Minute)
		if got := leader(t, b.Election); got != "b" {
			t.Errorf("the leader is %s", got)
		}
		b.leave(t)
		a.locker.Close(t.Context())
	})
}

// deaf does not release locks for a while.
type deaf struct {
	driver.Store
	now atomic.Bool
}

func (d *deaf) Unwrap() driver.Store { return d.Store }

func (d *deaf) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if d.now.Load() {
		return driver.OutcomeGone, driver.ErrUnavailable
	}
	return d.Store.Release(ctx, name, token, keep)
}

// The result of the function counts even if ctx ends before the lock is released.
func TestResultOfTheFunctionWhenCtxEnds(t *testing.T) {
	broken := errors.New("the last writes failed")
	stopped := fmt.Errorf("no more work: %w", election.ErrStop)
	for _, c := range []struct {
		name         string
		result, want error
		told         []error
	}{
		{"its own error", broken, nil, []error{broken}},
		{"nil", nil, nil, nil},
		{"the error of ctx", context.Canceled, nil, nil},
		{"ErrStop", stopped, stopped, nil},
		{"ErrStop and the error of ctx", errors.Join(stopped, context.Canceled), election.ErrStop, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{store: memstore.New()}
				var told []error
				a := w.joinWith(t, "a", func(ctx context.Context) error { <-ctx.Done(); return c.result },
					election.OnError(func(err error) { told = append(told, err) }))
				a.stop()
				if err := <-a.result; !errors.Is(err, c.want) || !slices.Equal(told, c.told) {
					t.Errorf("Run returns %v, OnError got %v; want %v and %v", err, told, c.want, c.told)
				}
				a.locker.Close(t.Context())
			})
		})
	}
}

// The work is finished, and ctx ends while the lock is released.
func TestFinishesBeforeCtxEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deaf{Store: memstore.New()}
		store.now.Store(true)
		w := &world{store: store}
		finish := make(chan struct{})
		a := w.joinWith(t, "a", func(context.Context) error { <-finish; return nil }, election.OnError(func(error) {}))
		close(finish)
		synctest.Wait() // Release tries again and again
		a.stop()
		if err := <-a.result; err != nil {
			t.Errorf("Run returns %v", err)
		}
		store.now.Store(false)
		a.locker.Close(t.Context())
	})
}

// ErrStop ends Run even if the function returns it together with the error of its context.
func TestStopsAfterResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		a := w.joinWith(t, "a", func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", election.ErrStop, ctx.Err())
		})
		if err := a.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		wait(time.Minute)
		select {
		case err := <-a.result:
			if !errors.Is(err, election.ErrStop) {
				t.Errorf("Run returns %v", err)
			}
		default:
			t.Errorf("Run goes on; there were %d terms", w.terms.Load())
			a.stop()
			<-a.result
		}
		a.locker.Close(t.Context())
	})
}
