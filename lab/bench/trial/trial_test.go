//go:build linux

package trial

import (
	"context"
	"testing"
	"time"
)

// A lock that lets everybody in is found out.
func TestNoLockAtAllIsNoticed(t *testing.T) {
	t.Parallel()
	none := &Peer{Name: "none", Open: func(*Counter) (*Client, error) {
		let := func(context.Context, string) (func() error, error) { return func() error { return nil }, nil }
		return NewClient(func() error { return nil }, let), nil
	}}
	// Where one processor does all the work, nobody comes between two others
	// until the kernel or the runtime happens to switch just there.
	for deadline := time.Now().Add(20 * time.Second); ; {
		f, err := none.Compete(3, false, 30*time.Millisecond, 3*time.Second, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f["violations"] > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no violation in %v locks a second", f["locks/s"])
		}
	}
}

func TestTwoOwnersAreNoticed(t *testing.T) {
	p := new(Page)
	p.enter(1)
	p.leave(1)
	p.enter(2)
	if n := p.violations.Load(); n != 0 {
		t.Errorf("%d violations among owners that came one after the other", n)
	}
	p.enter(3)
	if n := p.violations.Load(); n != 1 {
		t.Errorf("%d violations, want 1", n)
	}
}
