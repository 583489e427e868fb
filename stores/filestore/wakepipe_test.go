//go:build linux

package filestore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// The FIFO of a waiter is removed during the wait, for example by a program that cleans up. The
// store makes another FIFO.
func TestPipeIsRemoved(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	other := open(t, s.Dir())
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 1)
	if err := os.RemoveAll(filepath.Join(s.Dir(), waitersDir)); err != nil {
		t.Fatal(err)
	}
	waitingIs(t, s, 1)
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
}

// No child inherits the FIFO, and only the owner of the FIFO can read it.
func TestPipeIsPrivate(t *testing.T) {
	t.Parallel()
	for _, access := range []access{private, group, world} {
		s := open(t, t.TempDir())
		s.config.access = access
		id := s.pipeID(t)
		raw, err := s.order.pipe.file.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var flags uintptr
		if err := raw.Control(func(fd uintptr) {
			flags, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0)
		}); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(s.Dir(), waitersDir, pipeName(id)))
		if err != nil || flags&syscall.FD_CLOEXEC == 0 || st.Mode().Perm()&0o044 != 0 {
			t.Errorf("flags %x, %v, %v", flags, st, err)
		}
	}
}

// pipeID returns the number of the pipe that the store has open.
func (s *Store) pipeID(t testing.TB) uint64 {
	t.Helper()
	id, err := s.order.pipe.openPipe(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Bytes that other programs write into the FIFO do no harm.
func TestNoiseInThePipe(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("job", "us"))
	other := deaf(t, s.Dir())
	w := wait(t, other, request("job", "them"))
	waitingIs(t, s, 1)
	pipe, err := os.OpenFile(filepath.Join(s.Dir(), waitersDir, pipeName(other.pipeID(t))), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for _, text := range []string{"x", strings.Repeat("noise", 99), strings.Repeat("y", wakeSize)} {
		if _, err := io.WriteString(pipe, text); err != nil {
			t.Fatal(err)
		}
	}
	release(t, s, "job", "us", driver.OutcomeReleased)
	w.get(t)
}

// The FIFOs of processes that died long ago are removed when another process makes a FIFO.
func TestDeadPipesAreSwept(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	dir := filepath.Join(s.Dir(), waitersDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2 * sweepMax) {
		if err := syscall.Mkfifo(filepath.Join(dir, pipeName(i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		other := open(t, s.Dir())
		other.pipeID(t)
		other.Close()
	}
	if entries, err := os.ReadDir(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%d are left, %v", len(entries), err)
	}
}
