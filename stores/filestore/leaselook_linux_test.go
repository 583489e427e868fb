package filestore

import (
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process that looks at a lock has it locked. If the kernel takes the processor from it then,
// a lease can be extended, replaced, broken and released nevertheless.
func TestLeaseWhileAnotherLooks(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := patience(t)
	r := request("job", "first")
	r.Detached = true
	take(t, s, r)
	file, err := os.Open(pathOf(s, "job"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var looks sync.WaitGroup
	defer looks.Wait()
	fd := int(file.Fd())
	look := func() {
		t.Helper()
		looks.Wait()
		if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		looks.Go(func() {
			<-time.After(10 * time.Millisecond)
			_ = syscall.Flock(fd, syscall.LOCK_UN)
		})
	}
	look()
	if _, err := s.Extend(ctx, "job", "first", 2*time.Minute); err != nil {
		t.Errorf("Extend: %v", err)
	}
	look()
	r.Token, r.Replaces = "second", "first"
	g, err := s.Acquire(ctx, r)
	if err != nil {
		t.Fatalf("Acquire with Replaces: %v", err)
	}
	look()
	if _, err := s.Break(ctx, "job", g.Fence); err != nil {
		t.Errorf("Break: %v", err)
	}
	r.Token, r.Replaces = "third", ""
	take(t, s, r)
	look()
	if _, err := s.Release(ctx, "job", "third", 0); err != nil {
		t.Errorf("Release: %v", err)
	}
}
