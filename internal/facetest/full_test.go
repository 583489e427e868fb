package facetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// cramped is a store that has no room for a cool-down.
type cramped struct{ *remote }

func (c cramped) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	out, err := c.remote.Release(ctx, name, token, 0)
	if keep > 0 && err == nil && out == driver.OutcomeReleased {
		err = driver.ErrUnavailable
	}
	return out, err
}

// A store without room for the cool-down has released the lock: Release reports the error of the
// store, sends one request, and leaves nothing to clean up.
func TestReleaseWithoutRoomForTheCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, cramped{store})
		ctx := t.Context()
		lock, err := l.Acquire(ctx, "job", padlock.CoolDown(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		wantOnly(t, lock.Release(), "release", padlock.ErrUnavailable)
		if lock, err = l.Acquire(ctx, "job"); err != nil {
			t.Fatal(err)
		}
		key, err := lock.Export(ctx)
		if err != nil {
			t.Fatal(err)
		}
		wantOnly(t, l.ReleaseKey(ctx, key, padlock.CoolDown(time.Minute)), "release", padlock.ErrUnavailable)
		if n := len(store.log("release")); n != 2 {
			t.Errorf("%d requests for two releases", n)
		}
		if s := l.Stats(); s.Uncertain != 0 || s.CleanUps != 0 {
			t.Errorf("there is something to clean up: %+v", s)
		}
	})
}
