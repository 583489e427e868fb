//go:build linux || darwin || freebsd

package filestore_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/filestore"
)

func TestContract(t *testing.T) {
	dir := t.TempDir()
	drivertest.Run(t, drivertest.Harness{
		Open:    func(context.Context) (driver.Store, error) { return filestore.Open(dir) },
		Foreign: func(name string) (func() error, error) { return lockFile(dir, name) },
	})
}

// lockFile takes a lock with flock(2) and nothing else, like a program that does not know padlock.
func lockFile(dir, name string) (release func() error, err error) {
	file, err := os.OpenFile(filepath.Join(dir, filestore.FileName(name)), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file.Close, nil
}
