package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/memstore"
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
		return driver.Gone, driver.ErrUnavailable
	}
	return d.Store.Release(ctx, name, token, keep)
}
