package facetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
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
