package filestore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

func init() { scripts["two containers"] = twoContainers }

// Two containers of one image have a file system each, over the files of the image. A lock file is
// copied before it is locked, so both have the lock. The page of the store says so.
func TestTwoContainersOfOneImage(t *testing.T) {
	t.Parallel()
	server.NeedsRoot(t) // to mount an overlay
	start(t, "two containers", t.TempDir(), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}).end()
}

func twoContainers(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	image, err := Open(filepath.Join(dir, "image", "locks"))
	if err != nil {
		return err
	}
	if _, err := image.Acquire(background, request("job", "build")); err != nil {
		return err
	}
	if err := image.Close(); err != nil { // the lock file stays in the image
		return err
	}
	for _, container := range []string{"one", "two"} {
		for _, part := range []string{"files", "changes", "work"} {
			if err := os.MkdirAll(filepath.Join(dir, container, part), 0o700); err != nil {
				return err
			}
		}
		options := fmt.Sprintf("lowerdir=%[1]s/image,upperdir=%[1]s/%[2]s/changes,workdir=%[1]s/%[2]s/work", dir, container)
		if err := syscall.Mount("overlay", filepath.Join(dir, container, "files"), "overlay", 0, options); err != nil {
			return err
		}
		s, err := Open(filepath.Join(dir, container, "files", "locks"))
		if err != nil {
			return err
		}
		defer s.Close()
		if _, err := s.Acquire(background, request("job", container)); err != nil {
			return fmt.Errorf("container %s, which has files of its own: %w", container, err)
		}
	}
	return nil
}
