//go:build linux && (amd64 || arm64)

package filestore

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/seccomp"
)

func init() {
	scripts["unlock fails"] = func(dir string) error { return unlockFails(dir, syscall.EIO) }
}

// On a network file system, unlocking a file may fail. The store then closes the file, because
// otherwise a free name would stay locked until this process ends.
func TestUnlockFails(t *testing.T) {
	t.Parallel()
	start(t, "unlock fails", t.TempDir(), nil).end()
}

func unlockFails(dir string, with syscall.Errno) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	other, err := Open(dir)
	if err != nil {
		return err
	}
	acquire := func(s *Store, r driver.Request) error { _, err := s.Acquire(background, r); return err }
	free := func(s *Store, token string) error {
		o, err := s.Release(background, "job", token, 0)
		if err == nil && o != driver.OutcomeReleased {
			err = fmt.Errorf("the outcome is %v", o)
		}
		return err
	}
	detached := request("job", "lease")
	detached.Detached = true
	return check(
		func() error { return acquire(s, request("job", "us")) },
		func() error { return refuseUnlock(with) },
		func() error { return free(s, "us") },
		func() error { return acquire(other, request("job", "them")) },
		func() error {
			if err := acquire(s, request("job", "us")); !errors.Is(err, driver.ErrHeld) {
				return fmt.Errorf("got %v, want ErrHeld", err)
			}
			return nil
		},
		func() error { return free(other, "them") },
		func() error { return acquire(s, detached) },
		func() error { _, err := other.Extend(background, "job", "lease", detached.TTL); return err },
		func() error { return free(other, "lease") },
		func() error { return acquire(s, shared("job", "us")) },
		func() error { return free(s, "us") },
		func() error { return acquire(other, request("job", "them")) },
		s.Close, other.Close,
	)
}

// refuseUnlock makes every later LOCK_UN of this process fail with an error.
func refuseUnlock(with syscall.Errno) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := seccomp.Set(seccomp.AllThreads,
		seccomp.Load(seccomp.Number), seccomp.Equal(syscall.SYS_FLOCK, 0, 3),
		seccomp.Load(seccomp.Argument(1)), seccomp.Equal(syscall.LOCK_UN, 0, 1),
		seccomp.Fail(with), seccomp.Allow())
	return err
}
