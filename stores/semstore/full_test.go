//go:build linux && !android && (amd64 || arm64 || riscv64 || loong64)

package semstore

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
)

// fullEnv is set in the process whose semaphores are used up. It sees none but its own.
const fullEnv = "SEMSTORE_TEST_FULL"

// TestContractOfAFullKernel runs the cases of a full store in a process that has taken all
// semaphores of its kernel, or of its container.
func TestContractOfAFullKernel(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		drivertest.Run(t, drivertest.Harness{
			Open:      func(context.Context) (driver.Store, error) { return Open(MD5) },
			Anonymous: true,
			Alone:     true,
			Full:      useUp,
			FullSays:  "kernel.sem",
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=90s")
	cmd.Env = append(os.Environ(), fullEnv+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL}
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

var ballast []int

// useUp makes semaphores until the kernel has none left. With false it removes them.
func useUp(on bool) error {
	for on {
		set, _, errno := syscall.Syscall(syscall.SYS_SEMGET, 0, 1, 0o600) // IPC_PRIVATE
		if errno == syscall.ENOSPC {
			return nil
		}
		if errno != 0 {
			return errno
		}
		ballast = append(ballast, int(set))
	}
	var err error
	for _, set := range ballast {
		err = errors.Join(err, remove(set))
	}
	ballast = nil
	return err
}
