//go:build linux

package filestore

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

func init() { scripts["unreadable file"] = unreadableFile }

// blind makes each later read through c fail. It puts a descriptor that is open for writing only in
// the place of the descriptor of c.
func blind(t *testing.T, c *conn, path string) {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		err = syscall.Dup3(fd, c.fd, syscall.O_CLOEXEC)
		_ = syscall.Close(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// blindSpare makes the reads of the next call fail.
func blindSpare(t *testing.T, s *Store, name string) {
	t.Helper()
	f, err := s.enter(name)
	if err != nil {
		t.Fatal(err)
	}
	defer s.endCall(f)
	if err := s.refresh(f); err != nil {
		t.Fatal(err)
	}
	blind(t, f.spare, f.path)
}

// A name is kept by a key, and one process cannot read its file. Every verb of that process fails,
// and neither the key nor its fence is lost.
func TestUnreadFileIsNotFree(t *testing.T) {
	t.Parallel()
	owner := open(t, t.TempDir())
	key := request("n", "key")
	key.Detached, key.TTL, key.FenceAbove = true, time.Hour, uint64(time.Now().Add(time.Hour).UnixMicro())
	first := take(t, owner, key)
	before, err := os.ReadFile(pathOf(owner, "n"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, owner.Dir())
	refused(t, s, request("n", "b"))
	detached, next := request("n", "d"), request("n", "e")
	detached.Detached, next.Detached, next.Replaces = true, true, driver.TokenOf("key")
	for verb, call := range map[string]func() error{
		"Acquire":              func() error { _, err := s.Acquire(patience(t), request("n", "b")); return err },
		"Acquire, shared":      func() error { _, err := s.Acquire(patience(t), shared("n", "b")); return err },
		"Acquire of a key":     func() error { _, err := s.Acquire(patience(t), detached); return err },
		"hand-over of the key": func() error { _, err := s.Acquire(patience(t), next); return err },
		"Wait":                 func() error { _, err := s.Wait(patience(t), request("n", "b"), true); return err },
		"Wait, watching":       func() error { _, err := s.Wait(patience(t), request("n", "b"), false); return err },
		"Extend":               func() error { _, err := s.Extend(patience(t), "n", "key", time.Hour); return err },
		"Extend by 0":          func() error { _, err := s.Extend(patience(t), "n", "key", 0); return err },
		"Release":              func() error { _, err := s.Release(patience(t), "n", "key", 0); return err },
		"Break":                func() error { _, err := s.Break(patience(t), "n", first.Fence); return err },
		"Break of a free name": func() error { _, err := s.Break(patience(t), "n", 0); return err },
	} {
		blindSpare(t, s, "n")
		if err := call(); !errors.Is(err, driver.ErrUnavailable) {
			safety.Broken(t, "%s of a file that cannot be read: %v, want ErrUnavailable", verb, err)
		}
	}
	wantBytes(t, pathOf(s, "n"), 0, before)
	s = open(t, owner.Dir())
	refused(t, s, request("n", "b"))
	held(t, s, "n", "key")
	release(t, s, "n", "key", driver.OutcomeReleased)
	safety.Rises(t, take(t, s, request("n", "b")).Fence, first.Fence)
}

// A holder that cannot read its file keeps its lock, and does not write what it does not know.
func TestUnreadFileOfAHold(t *testing.T) {
	t.Parallel()
	for _, r := range []driver.Request{request("n", "a"), shared("n", "a")} {
		s := open(t, t.TempDir())
		take(t, s, r)
		before, err := os.ReadFile(pathOf(s, "n"))
		if err != nil {
			t.Fatal(err)
		}
		c := s.files["n"].holds[0].conn
		blind(t, c, pathOf(s, "n"))
		if err := c.tryLock(r.Shared); err != nil {
			t.Fatal(err)
		}
		other := r
		other.Shared = !r.Shared
		for verb, call := range map[string]func() error{
			"Convert":    func() error { _, err := s.Convert(patience(t), other); return err },
			"RaiseFence": func() error { return s.RaiseFence(patience(t), "n", "a", 1<<52) },
			"Release":    func() error { _, err := s.Release(patience(t), "n", "a", time.Hour); return err },
		} {
			if err := call(); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("%s, shared: %v: %v, want ErrUnavailable", verb, r.Shared, err)
			}
		}
		if _, err := s.Extend(patience(t), "n", "a", 0); !r.Shared && !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Extend: %v, want ErrUnavailable", err)
		}
		if h := refused(t, open(t, s.Dir()), request("n", "b")); len(h.Holds) != 1 || h.Holds[0].Label != "a" {
			t.Errorf("held by %+v", h.Holds)
		}
		wantBytes(t, pathOf(s, "n"), 0, before)
		release(t, s, "n", "a", driver.OutcomeReleased)
	}
}

// A child that got the file may have unlocked it. If the holder cannot read who has the name now,
// Release does not answer.
func TestUnreadFileOfAChild(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, request("n", "a"))
	file, err := s.File("n", "a")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	blind(t, s.files["n"].holds[0].conn, pathOf(s, "n"))
	for range 2 {
		_, err = s.Release(patience(t), "n", "a", 0)
		wantErr(t, err, driver.ErrUnavailable, "cannot be read")
	}
}

// A reader that cannot read the records of others does not write over them.
func TestUnreadReadersAreNotFree(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	take(t, s, shared("n", "a"))
	before, err := os.ReadFile(pathOf(s, "n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.openPath(pathOf(s, "n"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	blind(t, c, pathOf(s, "n"))
	if i := freeReader(c, 1, time.Now()); i != -1 {
		t.Errorf("record %d is free", i)
	}
	if got, err := os.ReadFile(pathOf(s, "n")); err != nil || !bytes.Equal(got, before) {
		t.Errorf("the file was changed, %v", err)
	}
	if holds, _ := s.occupants(c, &record{}); len(holds) != 1 || holds[0].Foreign {
		t.Errorf("held by %+v, want a holder of whom nothing is known", holds)
	}
	if n := (&conn{fd: -1}).countMarks(); n != -1 {
		t.Errorf("%d wait, want -1 (not known)", n)
	}
}

// Each read of the lock file fails in the kernel: the memory of the process is mounted there, and
// nothing is at its address 0.
func TestUnreadFileByPath(t *testing.T) {
	s := open(t, t.TempDir())
	for _, name := range []string{"bad", "good"} {
		take(t, s, request(name, "us"))
	}
	start(t, "unreadable file", s.Dir(), func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS}
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}).end()
}

func unreadableFile(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := syscall.Mount("/proc/self/mem", pathOf(s, "bad"), "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if g, err := s.Acquire(background, request("bad", "child")); !errors.Is(err, driver.ErrUnavailable) {
		return safety.ErrBroken("Acquire: %+v, %v", g, err)
	}
	if state, err := s.Inspect(background, "bad"); !errors.Is(err, driver.ErrUnavailable) {
		return safety.ErrBroken("Inspect: %+v, %v", state, err)
	}
	states, err := s.List(background, "")
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "bad") || len(states) != 1 {
		return safety.ErrBroken("List: %+v, %v", states, err)
	}
	return nil
}
