package server

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// owner is the user that a server runs as if the test runs as root.
type owner struct{ uid, gid uint32 }

// lookupOwner returns nil, the user of the test, unless name is given and the test runs as root.
// Then it can and must become another user.
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

// own makes the owner own a path.
func (o *owner) own(path string) error {
	if o == nil {
		return nil
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}
