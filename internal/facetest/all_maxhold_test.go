package facetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
)

// The time of HoldAtMost begins when all locks are held, and not with the first grant.
func TestMaxHoldOfSeveralNames(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		b := acquire(t, l, "b")
		time.AfterFunc(7*time.Second, func() { release(t, b) })
		const most = 10 * time.Second
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.HoldAtMost(most))
		if err != nil {
			t.Fatal(err)
		}
		if left := all.Remaining(); left != most {
			t.Errorf("all locks are held, and %v are left, want %v", left, most)
		}
		begin := time.Now()
		<-all.Context().Done()
		if d := time.Since(begin); d != most {
			t.Errorf("the first lock ended after %v, want %v", d, most)
		}
		if err := context.Cause(all.Context()); !errors.Is(err, padlock.ErrMaxHold) {
			t.Errorf("the cause is %v", err)
		}
		all.Release()
	})
}

// A call that waits longer than HoldAtMost for a later name still gets all locks.
func TestMaxHoldDoesNotBoundTheWait(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		b := acquire(t, l, "b")
		time.AfterFunc(7*time.Second, func() { release(t, b) })
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.HoldAtMost(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Release(); err != nil {
			t.Error(err)
		}
	})
}
