package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// prepareDir returns an error if dir is not safe for locks. If dir does not exist and c.create is
// true, prepareDir makes it.
func prepareDir(dir string, c *config) error {
	if !filepath.IsAbs(dir) {
		return storekit.Invalidf("the directory %q is not absolute; write it from the root, so that all processes use the same one", dir)
	}
	if c.create {
		if err := makeDir(dir, c.access); err != nil {
			return fmt.Errorf("%w: the directory for locks cannot be made: %w; choose another", driver.ErrUnavailable, err)
		}
	}
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: the directory %s does not exist; make it with mkdir -m 700", driver.ErrUnavailable, dir)
	case err != nil:
		return unavailable(dir, err)
	case !st.IsDir():
		return storekit.Invalidf("%s is not a directory", dir)
	}
	if err := checkAccess(dir, st, c.access); err != nil {
		return err
	}
	return checkFileSystem(dir, c.network)
}

// makeDir makes dir if it does not exist, and sets its permissions so that the allowed users can
// use it. Missing parent directories are made for this user only.
func makeDir(dir string, access access) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil
	case err != nil:
		return err
	}
	perm := [...]os.FileMode{private: 0o700, group: 0o770 | os.ModeSetgid, world: 0o777 | os.ModeSticky}[access]
	return os.Chmod(dir, perm) // even a private directory, because the umask may have taken rights away
}

// checkFileSystem returns an error if dir is on a network file system, unless allowNetwork is true.
// On such a file system a lock may be lost, or other machines may not see the lock.
func checkFileSystem(dir string, allowNetwork bool) error {
	kind, err := networkFileSystem(dir)
	if err != nil {
		return unavailable(dir, err)
	}
	return refuseNetwork(dir, kind, allowNetwork)
}

func refuseNetwork(dir, kind string, allow bool) error {
	if kind == "" || allow {
		return nil
	}
	return fmt.Errorf("%w: %s is on a network file system (%s), where file locks may not hold: use a directory on a local disk, "+
		"or a server (redis://), or add AllowNetwork (nfs=force) to use it all the same", driver.ErrUnavailable, dir, kind)
}
