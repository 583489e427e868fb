//go:build linux

package filestore

import (
	"os"
	"syscall"
	"testing"
)

// The umask belongs to the whole process, so the script runs in a process of its own.
func init() {
	scripts["umask"] = func(dir string) error {
		syscall.Umask(0o777)
		for range 2 { // the second store opens what the first has made
			s, err := Open(dir + "/locks")
			if err != nil {
				return err
			}
			if _, err := s.Acquire(background, request("job", "us")); err != nil {
				return err
			}
			if _, err := s.Wait(background, request("other", "us"), true); err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
		}
		return nil
	}
}

// A umask that takes every right away does not lock this user out of its own locks.
func TestUmask(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "umask") // not t.TempDir, whose parent other users cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	start(t, "umask", dir, asNobody).end()
	for path, want := range map[string]os.FileMode{dir + "/locks": 0o700 | os.ModeDir, dir + "/locks/" + fileName("job"): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s has the mode %v, %v; want %v", path, st.Mode(), err, want)
		}
	}
}
