//go:build linux

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
)

func init() {
	scripts["no bytes left"] = func(dir string) error { return fullDevice(dir, "size=2m", fillBytes) }
	scripts["no files left"] = func(dir string) error { return fullDevice(dir, "nr_inodes=1500", fillFiles) }
}

// Two processes run the contract's cases of a full store: on a disk on which no byte is left, and on
// one that can have no further file.
func TestContractOnAFullDisk(t *testing.T) {
	for _, script := range []string{"no bytes left", "no files left"} {
		start(t, script, t.TempDir(), inNamespace).end()
	}
}

// inNamespace lets the process of cmd mount a disk.
func inNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS}
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
}

// fullDevice mounts a small disk and runs the cases there.
func fullDevice(dir, size string, fill func(path string) error) error {
	if err := syscall.Mount("padlock", dir, "tmpfs", 0, size+",mode=700"); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	var err error
	for _, f := range drivertest.Check(drivertest.Harness{
		Open:     func(context.Context) (driver.Store, error) { return Open(filepath.Join(dir, "locks")) },
		Alone:    true,
		FullSays: "no space",
		// A demotion needs a second file, unless there is one for this name already.
		FullRefuses: []string{"demotion"},
		Full: func(on bool) error {
			if on {
				return fill(ballast)
			}
			return os.RemoveAll(ballast)
		},
	}) {
		err = errors.Join(err, fmt.Errorf("%s: %s: %s", f.Case, f.Seen, f.At))
	}
	return err
}

func fillBytes(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 512))
	}
	return unlessFull(err)
}

func fillFiles(path string) (err error) {
	err = os.Mkdir(path, 0o700)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(path, fmt.Sprint(i)), nil, 0o600)
	}
	return unlessFull(err)
}

func unlessFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}
