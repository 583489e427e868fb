package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// checkGrant compares a grant with the lock that it must be of, and its Err with the one wanted.
func checkGrant(t *testing.T, g padlock.Grant, name string, slot int, fence uint64, want error) {
	t.Helper()
	if g.Name() != name || g.Slot() != slot || g.Fence() != fence || !errors.Is(g.Err(), want) || (g.Err() == nil) != (want == nil) {
		t.Errorf("the grant is of %q, slot %d, fence %d, %v; want %q, %d, %d, %v", g.Name(), g.Slot(), g.Fence(), g.Err(), name, slot, fence, want)
	}
}

// TestGrantFrom: the function of Do finds its grant. A grant that it keeps is refused when the function
// has ended, and one of a lost lock at once.
func TestGrantFrom(t *testing.T) {
	l := newLocker(t, memstore.New())
	var kept padlock.Grant
	var fence uint64
	err := l.Do(t.Context(), "job", func(ctx context.Context) error {
		kept = padlock.GrantFrom(ctx)
		fence, _ = padlock.FenceFrom(ctx)
		checkGrant(t, kept, "job", -1, fence, nil)
		return nil
	})
	if err != nil || fence == 0 {
		t.Fatal(fence, err)
	}
	checkGrant(t, kept, "job", -1, fence, padlock.ErrReleased)
	err = l.Do(t.Context(), "job", func(ctx context.Context) error {
		g := padlock.GrantFrom(ctx)
		checkGrant(t, g, "job", g.Slot(), g.Fence(), nil)
		if g.Slot() < 0 || g.Slot() > 2 {
			t.Errorf("slot %d of 3", g.Slot())
		}
		return nil
	}, padlock.Slots(3))
	if err != nil {
		t.Error(err)
	}
	checkGrant(t, padlock.GrantFrom(t.Context()), "", -1, 0, padlock.ErrInvalid)
	if n := len(padlock.GrantsFrom(t.Context())); n != 0 {
		t.Errorf("%d grants without a lock", n)
	}
}

func TestGrantOfALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		k := acquire(t, l, "job")
		ctx, cancel := k.Join(t.Context())
		defer cancel()
		g := padlock.GrantFrom(ctx)
		checkGrant(t, g, "job", -1, k.Fence(), nil)
		store.request("extend", fails(driver.ErrLost))
		if err := k.Check(t.Context()); err == nil {
			t.Error("the lock is not lost")
		}
		checkGrant(t, g, "job", -1, k.Fence(), padlock.ErrLost)
	})
}
