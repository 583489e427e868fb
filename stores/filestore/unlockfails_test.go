//go:build linux && (amd64 || arm64)

package filestore

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/padlock-go/padlock/driver"
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

// refuseUnlock makes every later LOCK_UN of this process fail with an error, by means of a filter
// for system calls (seccomp).
func refuseUnlock(with syscall.Errno) error {
	const (
		load, jumpIfEqual, result   = 0x20, 0x15, 0x06 // instructions of the filter
		offsetOfNumber, offsetOfHow = 0, 24            // in struct seccomp_data
		allow, fail                 = 0x7fff0000, 0x00050000
		noNewPrivileges             = 38
		setFilter, allThreads       = 1, 1
	)
	sysSeccomp := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH]
	filter := []struct {
		code     uint16
		yes, no  uint8
		argument uint32
	}{
		{load, 0, 0, offsetOfNumber},
		{jumpIfEqual, 0, 3, syscall.SYS_FLOCK},
		{load, 0, 0, offsetOfHow},
		{jumpIfEqual, 0, 1, syscall.LOCK_UN},
		{result, 0, 0, fail | uint32(with)},
		{result, 0, 0, allow},
	}
	program := struct {
		length uint16
		filter unsafe.Pointer
	}{uint16(len(filter)), unsafe.Pointer(&filter[0])}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.Syscall(sysSeccomp, setFilter, allThreads, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
