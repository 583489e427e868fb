//go:build linux

package filestore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

func init() { scripts["in a container"] = inContainer }

// The test starts a process in a new pid namespace, like a container that shares the directory. It
// does not run in parallel with other tests: a process that is started in a new user namespace has
// copies of all descriptors for a while.
func TestContainer(t *testing.T) {
	if !machine().seesAll {
		t.Skip("these tests run in a container themselves, from which another cannot be seen")
	}
	s := open(t, t.TempDir())
	take(t, s, request("outside", "us"))
	c := start(t, "in a container", s.Dir(), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	})
	c.expect("inside")
	for _, holds := range [][]driver.Hold{refused(t, s, request("inside", "us")).Holds, inspect(t, s, "inside").Holds} {
		if len(holds) != 1 || holds[0].Foreign || holds[0].Label != "child" {
			t.Errorf("held by %+v", holds)
		}
	}
	c.end()
	take(t, s, request("inside", "us"))
}

func inContainer(dir string) error {
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	s, err := Open(dir)
	if err != nil {
		return err
	}
	var held *driver.HeldError
	if _, err := s.Acquire(background, request("outside", "child")); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Label != "us" {
		return fmt.Errorf("outside is held: %w", err)
	}
	if state, err := s.Inspect(background, "outside"); !errors.Is(err, errors.ErrUnsupported) || len(state.Holds) != 1 {
		return fmt.Errorf("what is outside cannot be known: %+v, %w", state, err)
	}
	if _, err := s.Acquire(background, request("inside", "child")); err != nil {
		return err
	}
	if state, err := s.Inspect(background, "inside"); err != nil || len(state.Holds) != 1 || state.Holds[0].Label != "child" {
		return fmt.Errorf("what is inside shows: %+v, %w", state, err)
	}
	fmt.Println("inside")
	pause()
	return s.Close()
}
