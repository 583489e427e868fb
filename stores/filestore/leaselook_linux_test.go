package filestore

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
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
	// On a busy machine a look may take longer than the store waits for its end. Then f is called
	// again, during another look.
	during := func(what string, f func() error) {
		t.Helper()
		for range 20 {
			looks.Wait()
			if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				t.Fatal(err)
			}
			looks.Go(func() {
				<-time.After(10 * time.Millisecond)
				_ = syscall.Flock(fd, syscall.LOCK_UN)
			})
			if err = f(); !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrHeld) {
				break
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	during("Extend", func() error { _, err := s.Extend(ctx, "job", "first", 2*time.Minute); return err })
	r.Token, r.Replaces = driver.TokenOf("second"), driver.TokenOf("first")
	var g driver.Grant
	during("Acquire with Replaces", func() (err error) { g, err = s.Acquire(ctx, r); return err })
	during("Break", func() error { _, err := s.Break(ctx, "job", g.Fence); return err })
	r.Token, r.Replaces = driver.TokenOf("third"), driver.TokenOf("")
	take(t, s, r)
	during("Release", func() error { _, err := s.Release(ctx, "job", "third", 0); return err })
}
