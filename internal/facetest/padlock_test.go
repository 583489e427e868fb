package facetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestRenewalKeepsALockForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := memstore.New()
		other := padlock.New(store.Open())
		l := padlock.New(store)
		h, err := l.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Hour)
		if _, err := other.TryAcquire(ctx, "job"); !errors.Is(err, padlock.ErrHeld) {
			t.Fatalf("after five hours of renewals another locker got %v", err)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		h2, err := other.TryAcquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		safety.Rises(t, h2.Fence(), h.Fence())
		for _, l := range []*padlock.Locker{l, other} {
			if err := l.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
