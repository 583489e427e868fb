package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// errBusy means that another descriptor has the lock.
var errBusy = errors.New("busy")

// errNoAnswer means that flock(2) hangs.
var errNoAnswer = errors.New("the file system does not answer flock(2)")

// unavailable wraps an error of the system about a file, and says what to do.
func unavailable(path string, err error) error {
	if advice := advise(path, err); advice != "" {
		return fmt.Errorf("%w: %s: %w: %s", driver.ErrUnavailable, path, err, advice)
	}
	return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, path, err)
}

// unread returns the error for a lock file that could not be read. Nobody knows what it says, so
// the name counts neither as free nor as held.
func unread(path string, err error) error {
	return unavailable(path, fmt.Errorf("it cannot be read: %w", err))
}

func advise(path string, err error) string {
	if kind := kindAt(path); kind != "" {
		return "it is " + kind + ", where a lock file belongs; padlock leaves it alone: move it away, or rename the lock"
	}
	switch {
	case errors.Is(err, errNoAnswer):
		return "start the lock manager of the network file system, or use a directory on a local disk, or a server (redis://)"
	case errors.Is(err, errors.ErrUnsupported):
		return "this system or file system has no file locks; use another directory or another store"
	case isAny(err, tooManyFiles):
		return "too many files are open; raise the limit (ulimit -n) or hold fewer locks at once"
	case isAny(err, readOnly):
		return "choose a directory that can be written to"
	case isAny(err, diskFull):
		return "make room on the file system, or choose a directory on another"
	case errors.Is(err, fs.ErrPermission):
		return "run as the user who owns the directory and its files, or share them with AllowGroup (group=yes)"
	case errors.Is(err, fs.ErrNotExist):
		return "the directory is gone; make it again, for its owner only (mkdir -m 700), or choose another"
	}
	return ""
}

// kindAt returns what lies at the path of a lock file, if it is anything but a file.
func kindAt(path string) string {
	st, err := os.Lstat(path)
	if err != nil || st.Mode().IsRegular() || !strings.HasPrefix(filepath.Base(path), namePrefix) {
		return ""
	}
	switch mode := st.Mode(); {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// isAny reports whether err is one of these errors.
func isAny(err error, these []error) bool {
	return slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) })
}

// newer returns the error for a file whose format is newer than this build can read.
func newer(path string) error {
	return fmt.Errorf("%w: a newer padlock has written %s: update this program, or stop all programs that use the directory and move the file away",
		driver.ErrUnavailable, path)
}

func errLeaseBusy(path string) error {
	return fmt.Errorf("%w: %s is locked by a program that does not know leases, such as flock(1) or PHP", driver.ErrUnavailable, path)
}
