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

// A token that was released while a call with it waited is spent in stores that remember it. The
// call ends with ErrLost, and the lock of its stand-in is released and not left to its lease.
func TestTokenIsSpentWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		other := newLocker(t, connect(s.Store))
		k := acquire(t, other, "job")
		result := make(chan error)
		go func() {
			_, err := l.Acquire(t.Context(), "job", padlock.Token(myToken), padlock.TTL(time.Hour))
			result <- err
		}()
		synctest.Wait()
		s.request("acquire", func(context.Context, int) error {
			if calls := s.log("acquire"); calls[len(calls)-1].token == myToken {
				return driver.ErrLost
			}
			return nil
		})
		began := time.Now()
		release(t, k)
		if err := <-result; !errors.Is(err, padlock.ErrLost) {
			t.Errorf("the waiting call ends with %v", err)
		}
		release(t, acquire(t, other, "job", padlock.Wait(10*time.Minute)))
		if d := time.Since(began); d > time.Minute {
			t.Errorf("the name is free %v after the release", d)
		}
	})
}

// If the caller's token cannot replace the stand-in's, the time of HoldAtLeast is not spent: nobody
// has had the lock.
func TestStandInHoldsNoLongerThanItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		other := newLocker(t, connect(s.Store))
		k := acquire(t, other, "job")
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "job", padlock.Token(myToken), padlock.HoldAtLeast(time.Hour))
			result <- err
		}()
		synctest.Wait()
		s.request("acquire", func(context.Context, int) error {
			if calls := s.log("acquire"); calls[len(calls)-1].token == myToken {
				cancel()
				return context.Canceled
			}
			return nil
		})
		release(t, k)
		if err := <-result; err == nil {
			t.Fatal("the call succeeds")
		}
		s.heal()
		release(t, acquire(t, other, "job", padlock.Wait(time.Minute)))
	})
}

// A repeat finds the permit of its token even if callers of its Locker wait for one.
func TestTokenFindsItsPermitAmongWaiters(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		k := acquire(t, newLocker(t, s), "job", padlock.Slots(1), padlock.Token(myToken))
		l := newLocker(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "job", padlock.Slots(1))
			gone <- err
		}()
		synctest.Wait()
		again := acquire(t, l, "job", padlock.Slots(1), padlock.Token(myToken), padlock.Wait(time.Second))
		if again.Fence() != k.Fence() || again.Slot() != k.Slot() {
			t.Errorf("the repeat has permit %d with fence %d; the call had %d with %d", again.Slot(), again.Fence(), k.Slot(), k.Fence())
		}
		cancel()
		<-gone
		release(t, again)
		_ = k.Release() // the first Release has ended the lock for both
	})
}

// An unknown outcome of a permit's token stays unknown in the refusal.
func TestTokenOfAPermitArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		k := acquire(t, newLocker(t, connect(s.Store)), "job", padlock.Slots(1))
		s.request("acquire", first(1, lost))
		_, err := l.TryAcquire(t.Context(), "job", padlock.Slots(1), padlock.Token(myToken))
		wantOnly(t, err, padlock.OpAcquire, padlock.ErrHeld, padlock.ErrUncertain)
		release(t, k)
	})
}

// A call in the context of a permit, by way of Join, does not wait for itself.
func TestJoinOfAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		permit := acquire(t, l, "job", padlock.Slots(1))
		other := acquire(t, l, "other")
		ctx, cancel := other.Join(permit.Context())
		defer cancel()
		if _, err := l.Acquire(ctx, "job", padlock.Slots(1), padlock.Wait(time.Minute)); !errors.Is(err, padlock.ErrAlreadyHeld) {
			t.Errorf("%v; want ErrAlreadyHeld", err)
		}
		release(t, other)
		release(t, permit)
	})
}

// TryAcquire ignores Wait, whatever its value.
func TestTryIgnoresWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		k, err := l.TryAcquire(t.Context(), "job", padlock.Wait(-time.Second))
		if err != nil {
			t.Fatal(err)
		}
		release(t, k)
	})
}
