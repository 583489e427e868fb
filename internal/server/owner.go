package server

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// owner is the user of the server's process when the test runs as root.
type owner struct{ uid, gid uint32 }

// lookupOwner returns the user that a server must run as. It returns nil if the server runs as the
// test's user, because name is empty or the test does not run as root.
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

// giveFile gives a file to the owner.
func (o *owner) giveFile(path string) error {
	if o == nil {
		return nil
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}
