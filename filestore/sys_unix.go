//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filestore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// conn is an open lock file. The kernel keeps the lock for it, whatever other
// descriptors this process has on the same file.
type conn struct {
	fd       int
	dev, ino uint64
	local    bool   // the kernel answers without asking anybody
	path     string // with a zero byte at its end
	size     int64  // when current was asked
	hotPage
}

// openConn opens a lock file, making it if need be. An existing file is opened
// without O_CREAT first: Linux may forbid that combination in directories that
// anybody can write to.
func openConn(path string, access access) (*conn, error) {
	const flags = syscall.O_RDWR | syscall.O_CLOEXEC | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	for range 100 {
		fd, err := openFile(path, flags, 0)
		if err == syscall.ENOENT {
			fd, err = openFile(path, flags|syscall.O_CREAT|syscall.O_EXCL, 0o600)
			if err == syscall.EEXIST {
				continue // somebody made it meanwhile, or it is a broken link
			}
			if err == nil && access.perm() != 0o600 {
				_ = syscall.Fchmod(fd, access.perm()) // past the umask; the others' error will show if it fails
			}
		}
		if err != nil {
			return nil, err
		}
		c, err := newConn(fd, access)
		if err != nil {
			syscall.Close(fd)
			return nil, err
		}
		c.path = path + "\x00"
		return c, nil
	}
	return nil, syscall.ELOOP
}

// newConn refuses what must not be written to.
func newConn(fd int, access access) (*conn, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	euid := uint32(os.Geteuid())
	switch {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return nil, errors.New("it is not a regular file")
	case st.Nlink > 1:
		return nil, errors.New("it has more than one name (hard links); remove it")
	case access == private && st.Uid != euid && st.Uid != 0:
		return nil, fmt.Errorf("it belongs to user %d, not to us (%d); remove it, or share the directory with group=yes", st.Uid, euid)
	}
	if access == private && st.Uid == euid && st.Mode&0o077 != 0 {
		// PHP makes its files 0666, and whoever can open one can lock it.
		if err := syscall.Fchmod(fd, 0o600); err != nil {
			return nil, err
		}
	}
	return &conn{fd: fd, dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil
}

// openForReading opens an existing lock file, to look at it.
func openForReading(path string) (*conn, error) {
	fd, err := openFile(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &conn{fd: fd, dev: uint64(st.Dev), ino: uint64(st.Ino)}, nil
}

// tryLock takes or converts the lock, or answers errBusy. A conversion that is
// refused has lost the lock that was there.
func (c *conn) tryLock(shared bool) error {
	how := syscall.LOCK_EX | syscall.LOCK_NB
	if shared {
		how = syscall.LOCK_SH | syscall.LOCK_NB
	}
	for {
		switch err := c.flock(how); err {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return errBusy
		default:
			return err
		}
	}
}

func (c *conn) unlock() { _ = c.flock(syscall.LOCK_UN) }

// current reports whether the path still leads to this file.
func (c *conn) current() (bool, error) {
	st, err := statPath(c.path)
	c.size = st.size
	switch err {
	case nil:
		return st.ino == c.ino && st.dev == c.dev, nil
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP:
		return false, nil
	default:
		return false, err
	}
}

// state returns the number of the file's names and its size. What cannot be
// read counts as a file like any other.
func (c *conn) state() (linked bool, size int64) {
	st, err := statConn(c)
	if err != nil {
		return true, 0
	}
	return st.nlink > 0, st.size
}

func (c *conn) close() {
	c.unmap()
	_ = syscall.Close(c.fd)
}

// dup returns another descriptor for the same lock.
func (c *conn) dup(path string) (*os.File, error) {
	syscall.ForkLock.RLock() // no child may get it by accident
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(c.fd)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), path), nil
}
