package facetest

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A second Locker with the same store finds that the caller holds the name, too.
func TestSecondLockerInside(t *testing.T) {
	store := memstore.New()
	first, second := newLocker(t, store), padlock.New(store, padlock.KeepStoreOpen())
	elsewhere := newLocker(t, memstore.New())
	defer second.Close(t.Context())
	ctx := acquire(t, first, "job").Context()
	for name, opts := range map[string][]padlock.Option{"exclusive": nil, "shared": {padlock.Shared()}} {
		if _, err := second.TryAcquire(ctx, "job", opts...); !errors.Is(err, padlock.ErrAlreadyHeld) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := second.AcquireAll(ctx, []string{"job", "other"}, padlock.Wait(0)); !errors.Is(err, padlock.ErrAlreadyHeld) {
		t.Errorf("AcquireAll: %v", err)
	}
	permit := acquire(t, first, "permit", padlock.Slots(1))
	if _, err := second.TryAcquire(permit.Context(), "permit", padlock.Slots(1)); !errors.Is(err, padlock.ErrAlreadyHeld) {
		t.Errorf("Slots: %v", err)
	}
	release(t, acquire(t, second, "other"))
	k, err := elsewhere.TryAcquire(ctx, "job")
	if err != nil {
		t.Fatalf("in another store: %v", err)
	}
	release(t, k)
	if _, err := second.TryAcquire(context.Background(), "job"); !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("with another context: %v", err)
	}
}

// uncomparable is a store whose values == cannot compare.
type uncomparable struct {
	driver.Store
	_ []int
}

func TestStoresThatCannotBeCompared(t *testing.T) {
	store := uncomparable{Store: memstore.New()}
	first, second := newLocker(t, store), padlock.New(store, padlock.KeepStoreOpen())
	defer second.Close(t.Context())
	ctx := acquire(t, first, "job").Context()
	if _, err := second.TryAcquire(ctx, "job"); !errors.Is(err, padlock.ErrHeld) {
		t.Error(err)
	}
}
