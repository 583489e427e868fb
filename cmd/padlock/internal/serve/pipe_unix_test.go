//go:build linux || darwin || freebsd

package serve

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A key that comes from a pipe is read once: a second attempt would wait for a writer, and every
// new connection with it. A device that never ends does not fill the memory.
func TestServeKeyFromAPipe(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "a.example")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	go os.WriteFile(pipe, text, 0o600)
	pair, err := openKeyPair(cert, pipe)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(pipe, later, later); err != nil {
		t.Fatal(err)
	}
	pair.looked = time.Time{}
	got := make(chan error, 1)
	go func() {
		_, err := pair.getCertificate(nil)
		got <- err
	}()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a new connection waits for a writer of the pipe")
	}
	if _, err := openKeyPair("/dev/zero", "/dev/zero"); err == nil {
		t.Error("/dev/zero is a key")
	}
}
