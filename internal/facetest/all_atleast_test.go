package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A lock with HoldAtLeast is not passed on, even if AcquireAll took it.
func TestAcquireAllWithHoldAtLeastPassesNothingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		all, err := l.AcquireAll(t.Context(), []string{"job"}, padlock.HoldAtLeast(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w := wait(t, l)
		if err := all.Release(); err != nil {
			t.Error(err)
		}
		release(t, w.lock(t))
		if waited := time.Since(began); waited < time.Minute {
			t.Errorf("the next caller had the lock after %v", waited)
		}
		if n := s.requests()["pass"]; n != 0 {
			t.Errorf("%d requests to pass the lock on", n)
		}
	})
}

// Close ends the context of a function of DoAll, even if Close is called between the last lock and
// the call of the function.
func TestCloseBeforeTheFunctionOfDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := connect(memstore.New())
		l := padlock.New(store)
		closed := make(chan error, 1)
		store.request("acquire", func(ctx context.Context, n int) error {
			if n == 2 { // the first request with a minimum time: all locks are held
				go func() { closed <- l.Close(context.Background()) }()
				synctest.Wait()
			}
			return nil
		})
		err := l.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Hour):
				return errors.New("the context did not end")
			}
		}, padlock.HoldAtLeast(time.Second))
		if !errors.Is(err, padlock.ErrClosed) {
			t.Errorf("DoAll returned %v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Close during the last step of AcquireAll, which tells the store the minimum time, waits until the
// step is done. Otherwise a request that arrives after the release would take the lock again, and
// nobody would release that lock.
func TestCloseWhileAcquireAllSetsTheMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at := 2; at < 4; at++ {
			space := memstore.New()
			store := connect(space.Open())
			l := padlock.New(store, padlock.KeepStoreOpen())
			closed := make(chan error, 1)
			store.request("acquire", func(ctx context.Context, n int) error {
				if n == at {
					go func() { closed <- l.Close(context.Background()) }()
					synctest.Wait()
				}
				return nil
			})
			all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.HoldAtLeast(time.Second))
			if !errors.Is(err, padlock.ErrClosed) {
				t.Errorf("AcquireAll returned %v, %v", all, err)
			}
			if err := <-closed; err != nil {
				t.Errorf("Close: %v", err)
			}
			<-time.After(time.Second)
			other := newLocker(t, space.Open())
			for _, name := range []string{"a", "b"} {
				if k, err := other.TryAcquire(t.Context(), name); err != nil {
					t.Errorf("request %d: %s after the minimum time: %v", at, name, err)
				} else {
					release(t, k)
				}
			}
		}
	})
}

// If a lease ends before the request with the minimum time arrives, that request takes nothing.
func TestAcquireAllSetsNoMinimumAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := memstore.New()
		store := connect(space.Open())
		l := newLocker(t, store)
		store.request("acquire", func(ctx context.Context, n int) error {
			if n == 2 {
				<-time.After(2 * time.Second)
			}
			return nil
		})
		opts := []padlock.Option{padlock.HoldAtLeast(time.Minute), padlock.TTL(time.Second), padlock.NoRenewal()}
		if _, err := l.AcquireAll(t.Context(), []string{"a", "b"}, opts...); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("AcquireAll returned %v", err)
		}
		other := newLocker(t, space.Open())
		for _, name := range []string{"a", "b"} {
			if k, err := other.TryAcquire(t.Context(), name); err != nil {
				t.Errorf("%s: %v", name, err)
			} else {
				release(t, k)
			}
		}
	})
}
