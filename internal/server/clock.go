package server

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clockshim.c
var clockShim []byte

// A Clock is the wall clock of the servers that have Env in their environment. Its methods must not be
// called at once.
type Clock struct {
	Env  []string
	file string
}

// NewClock returns a clock that is right, or nil if there is no C compiler for it.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		return nil
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "padlock-clock-")
	must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(os.Chmod(dir, 0o711)) // some servers run as a user of their own
	source, shim := filepath.Join(dir, "clockshim.c"), filepath.Join(dir, "clockshim.so")
	c := &Clock{Env: []string{"LD_PRELOAD=" + shim}, file: filepath.Join(dir, "clock")}
	c.Env = append(c.Env, "PADLOCK_CLOCK="+c.file)
	must(os.WriteFile(source, clockShim, 0o600))
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", shim, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(os.WriteFile(c.file, make([]byte, 4096), 0o644))
	return c
}

// Set makes the clock fast by so much, or slow.
func (c *Clock) Set(fast time.Duration) error {
	file, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(fast)), 0)
	return err
}

// Add sets the clock forward by so much, or back.
func (c *Clock) Add(by time.Duration) error {
	now, err := os.ReadFile(c.file)
	if err != nil {
		return err
	}
	return c.Set(time.Duration(binary.NativeEndian.Uint64(now)) + by)
}
