//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filestore

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is an open lock file. The kernel's lock belongs to this descriptor, even if the process has
// other descriptors of the same file.
type conn struct {
	fd       int
	dev, ino uint64
	stuck    bool          // unlock failed, so only close frees the lock
	patience time.Duration // how long flock(2) may take; 0 if it never hangs here
	hung     chan error    // nil unless flock(2) hangs; has its result when it has ended
	unusable error         // why a file that is open for reading cannot be locked
	path     string        // ends with a zero byte
}

// openConn opens a lock file, and makes it if it does not exist. It tries without O_CREAT first,
// because Linux may forbid O_CREAT for existing files in directories that everybody can write to.
func openConn(path string, access access) (*conn, error) {
	const flags = syscall.O_RDWR | syscall.O_CLOEXEC | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	for range 100 {
		fd, err := openFile(path, flags, 0)
		if err == syscall.ENOENT {
			fd, err = openFile(path, flags|syscall.O_CREAT|syscall.O_EXCL, 0o600)
			if err == syscall.EEXIST {
				continue // another process made it in the meantime, or it is a broken link
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

// newConn returns an error if the file is not safe to write to.
func newConn(fd int, access access) (*conn, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if err := checkFile(&st, access); err != nil {
		return nil, err
	}
	c := &conn{fd: fd, dev: uint64(st.Dev), ino: uint64(st.Ino)}
	return c, c.setMode(&st, access)
}

// checkFile returns an error if the file of st is not safe to write to.
func checkFile(st *syscall.Stat_t, access access) error {
	euid := uint32(os.Geteuid())
	switch {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return errNotRegular
	case st.Nlink > 1:
		return errors.New("it has more than one name (hard links); remove it")
	case access == private && st.Uid != euid && st.Uid != 0:
		return fmt.Errorf("it belongs to user %d and this program runs as user %d; remove it, or share the directory with AllowGroup (group=yes)", st.Uid, euid)
	}
	return nil
}

// setMode gives a lock file of this user the permissions of the directory's sharing. It leaves a
// file alone that has other contents.
func (c *conn) setMode(st *syscall.Stat_t, access access) error {
	perm := access.perm()
	if st.Uid != uint32(os.Geteuid()) || access == private && st.Mode&0o777 == 0o600 || access != private && uint32(st.Mode)&perm == perm {
		return nil
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	switch rec := b.read(c); {
	case rec.unread != nil:
		return fmt.Errorf("it cannot be read: %w", rec.unread)
	case rec.foreign:
		return errNotALock
	}
	if access == private {
		// PHP makes its files 0666, and every user that can open a file can lock it. A umask such
		// as 0777 makes files that this user cannot open again.
		return syscall.Fchmod(c.fd, 0o600)
	}
	// The mode is wrong if the process that made the file was killed before it could set the mode,
	// or if the directory was private when the file was made. If Fchmod fails, other users get an
	// error.
	_ = syscall.Fchmod(c.fd, perm)
	return nil
}

// openForReading opens an existing lock file for reading.
func openForReading(path string, access access) (*conn, error) {
	fd, err := openFile(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	unusable := checkFile(&st, access)
	if unusable == errNotRegular {
		syscall.Close(fd)
		return nil, unusable
	}
	return &conn{fd: fd, dev: uint64(st.Dev), ino: uint64(st.Ino), unusable: unusable}, nil
}

// tryLock takes or converts the lock, or returns errBusy. If a conversion fails, the lock is lost.
func (c *conn) tryLock(shared bool) error {
	err := c.flock(howToLock(shared) | syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errBusy
	}
	return err
}

// flock calls flock(2). On a network file system the call may hang, even with LOCK_NB, and no signal
// ends it. So another thread makes the call there. If flock returns errNoAnswer, the caller closes
// c, and the descriptor is closed when that thread has ended. So if the kernel grants the lock in
// the end, it frees the lock at once.
func (c *conn) flock(how int) error {
	if c.patience == 0 {
		return flock(c.fd, how)
	}
	if c.hung != nil || hanging.Load() >= maxHanging {
		return errNoAnswer
	}
	hanging.Add(1)
	done := make(chan error, 1)
	go func() {
		err := flock(c.fd, how)
		hanging.Add(-1)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(c.patience):
		c.hung = done
		return errNoAnswer
	}
}

// hanging is how many threads of this process are in flock(2) on network file systems. They cannot
// be ended, so they have a limit.
var hanging atomic.Int32

const maxHanging = 16

func flock(fd, how int) error {
	err := syscall.Flock(fd, how)
	for err == syscall.EINTR {
		err = syscall.Flock(fd, how)
	}
	return err
}

func howToLock(shared bool) int {
	if shared {
		return syscall.LOCK_SH
	}
	return syscall.LOCK_EX
}

// unlock frees the lock. On a network file system that may fail. The lock is then freed by close;
// see keepSpare.
func (c *conn) unlock() {
	c.stuck = c.flock(syscall.LOCK_UN) != nil
}

// current reports whether the path still leads to this file.
func (c *conn) current() (bool, error) {
	st, err := statPath(c.path)
	switch err {
	case nil:
		return st.ino == c.ino && st.dev == c.dev, nil
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP:
		return false, nil
	default:
		return false, err
	}
}

// isLinked reports whether the file still has a name. If the system reports an error, isLinked
// assumes that it has.
func (c *conn) isLinked() bool {
	var st syscall.Stat_t
	err := syscall.Fstat(c.fd, &st)
	return err != nil || st.Nlink > 0
}

// descriptorLimit returns how many descriptors this process may have.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

func (c *conn) close() {
	if c.hung == nil {
		_ = syscall.Close(c.fd)
		return
	}
	go func() {
		<-c.hung
		_ = syscall.Close(c.fd)
	}()
}

// dup returns another descriptor for the same lock.
func (c *conn) dup(path string) (*os.File, error) {
	syscall.ForkLock.RLock() // so that no child inherits the descriptor by accident
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(c.fd)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), path), nil
}
