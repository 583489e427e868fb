//go:build linux

package filestore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

func init() {
	scripts["wait"] = func(dir string) error { return waitFor(dir, nil) }
	scripts["wait in a world"] = func(dir string) error { return waitFor(dir, nil, AllowWorld()) }
	scripts["wait on a full disk"] = func(dir string) error {
		return waitFor(dir, func() error {
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{})
		})
	}
	scripts["wait with few descriptors"] = func(dir string) error { return waitFor(dir, useUpDescriptors) }
}

// waitFor waits for "job", prints the fence, and releases the lock when the parent closes its
// input.
func waitFor(dir string, spoil func() error, opts ...Option) error {
	s, err := Open(dir, append([]Option{calm}, opts...)...)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, request("job", "try")); !errors.Is(err, driver.ErrHeld) {
		return fmt.Errorf("the lock is not held: %w", err)
	}
	if spoil != nil {
		if err := spoil(); err != nil {
			return err
		}
	}
	fmt.Println("waits")
	g, err := s.Wait(background, request("job", "child"), true)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(background, request("job", "child")); err != nil {
		return err
	}
	fmt.Println("fence", g.Fence)
	pause()
	if _, err := s.Release(background, "job", "child", 0); err != nil {
		return err
	}
	if found, err := s.Status(background); err != nil || len(found) != 1 || spoil != nil && found[0].Value == "in order of arrival" {
		return fmt.Errorf("status: %+v, %w", found, err)
	}
	return s.Close()
}

// useUpDescriptors opens files until only one descriptor is free.
func useUpDescriptors() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		return err
	}
	var last []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		last = append(last, f)
	}
	if len(last) == 0 {
		return errors.New("there were none")
	}
	return last[0].Close()
}

// A waiter that can get no ticket looks at the lock from time to time.
func TestWaitWithoutATicket(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"wait on a full disk", "wait with few descriptors"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			unlockFile(t, foreign(t, s, "job", syscall.LOCK_SH)) // this makes an empty file, without a record and without room for the queue
			take(t, s, request("job", "us"))
			c := start(t, script, s.Dir(), nil)
			c.expect("waits")
			release(t, s, "job", "us", driver.OutcomeReleased)
			c.expect("fence")
			c.end()
		})
	}
}
