//go:build unix

package program_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/cmd/padlock/internal/program"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"runs": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for name, want := range map[string]error{
		"runs": nil, "data": fs.ErrNotExist, "missing": fs.ErrNotExist,
		filepath.Join(dir, "runs"): nil, filepath.Join(dir, "data"): fs.ErrPermission, filepath.Join(dir, "missing"): fs.ErrNotExist,
		dir: syscall.EISDIR,
	} {
		if path, err := program.Find(name); !errors.Is(err, want) || err == nil && path != filepath.Join(dir, "runs") {
			t.Errorf("%s: %q, %v; want %v", name, path, err, want)
		}
	}
	if err := os.Unsetenv("PATH"); err != nil {
		t.Fatal(err)
	}
	if path, err := program.Find("sh"); err != nil || filepath.Base(path) != "sh" {
		t.Errorf("sh without PATH: %q, %v", path, err)
	}
	if _, err := program.Find("runs"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without PATH: %v", err)
	}
}
