package server

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// owner is the user that a server runs as if the test runs as root.
type owner struct{ uid, gid uint32 }

// lookupOwner returns the user that a server has to run as. If name is empty or the test does not
// run as root, that is the test's user, and lookupOwner returns nil.
func lookupOwner(name string) (*owner, error) {
	if name == "" || os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	return &owner{uint32(uid), uint32(gid)}, nil
}

// own makes the owner the owner of a file.
func (o *owner) own(path string) error {
	if o == nil {
		return nil
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}
