//go:build linux || darwin || freebsd

package padlockweb

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Tokens may come from a pipe. It is read once: a second attempt would wait for a writer, and every
// visitor with it.
func TestTokensFromAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	go os.WriteFile(path, []byte("a 0123456789abcdefghij read\n"), 0o600)
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	refreshed := make(chan error, 1)
	go func() { refreshed <- tokens.refresh(later) }()
	select {
	case err := <-refreshed:
		if _, ok := tokens.find("0123456789abcdefghij"); err != nil || !ok {
			t.Errorf("after the refresh the token is there: %v, %v", ok, err)
		}
	case <-time.After(time.Minute):
		t.Error("the refresh waits for a writer")
	}
}
