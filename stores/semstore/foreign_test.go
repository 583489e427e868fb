//go:build linux && !android && (amd64 || arm64 || riscv64 || loong64)

package semstore

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// makeSet makes a set as another program does, and returns its id.
func makeSet(t *testing.T, key int32, mode int, with []int) int {
	t.Helper()
	id, _, errno := syscall.Syscall(syscall.SYS_SEMGET, uintptr(key), uintptr(len(with)), uintptr(mode|ipcCreate))
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { _ = remove(int(id)) })
	for i, to := range with {
		if err := setValue(int(id), i, to); err != nil {
			t.Fatal(err)
		}
	}
	return int(id)
}

// A set of another program is neither changed nor removed, and every verb refuses it.
func TestSetOfAnotherProgram(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]struct {
		mode int
		with []int
	}{
		"one semaphore":                 {0o666, []int{1}},
		"four semaphores":               {0o666, []int{1, 0, 0, 0}},
		"a counter of places":           {0o666, []int{4, 0, 0}},
		"a third semaphore that counts": {0o666, []int{0, 1, 3}},
		"opened by nobody":              {0o666, []int{1, 0, 1}},
		"for one user":                  {0o600, []int{1, 0, 0}},
	} {
		name := unique(t, what)
		id := makeSet(t, MD5.key(name), set.mode, set.with)
		s := open(t, MD5)
		want := func(verb string, err error) {
			t.Helper()
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s: %s: %v", what, verb, err)
			}
		}
		_, err := s.Acquire(patience(t), request(name, "a"))
		want("Acquire", err)
		for _, reserve := range []bool{true, false} {
			_, err = s.Wait(patience(t), request(name, "a"), reserve)
			want("Wait", err)
		}
		_, err = s.Inspect(patience(t), name)
		want("Inspect", err)
		if _, err := s.Extend(patience(t), name, "a", time.Minute); err == nil {
			t.Errorf("%s: Extend succeeds", what)
		}
		release(t, s, name, "a", driver.OutcomeGone)
		for i, was := range set.with {
			if got, err := value(id, i); err != nil || got != was {
				t.Errorf("%s: semaphore %d has %d, %v; it had %d", what, i, got, err, was)
			}
		}
	}
}
