package filestore

import (
	"errors"
	"io"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"
)

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

// descriptorLimit returns how many descriptors this process may have.
func descriptorLimit() int { return math.MaxInt32 }

// conn is an open lock file. It is opened without FILE_SHARE_DELETE, so that no process can remove
// or rename the file while it is open.
type conn struct {
	h        syscall.Handle
	dev, ino uint64
	unusable error         // always nil
	stuck    bool          // always false: unlock does not fail
	patience time.Duration // has no effect: no report says that LockFileEx hangs
}

func openConn(path string, _ access) (*conn, error) {
	return openWith(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.OPEN_ALWAYS)
}

func openForReading(path string, _ access) (*conn, error) {
	return openWith(path, syscall.GENERIC_READ, syscall.OPEN_EXISTING)
}

func openWith(path string, how, create uint32) (*conn, error) {
	p, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	const share = syscall.FILE_SHARE_READ | syscall.FILE_SHARE_WRITE
	h, err := syscall.CreateFile(p, how, share, nil, create,
		syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return nil, err
	}
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(h, &info); err != nil {
		syscall.CloseHandle(h)
		return nil, err
	}
	if info.FileAttributes&(syscall.FILE_ATTRIBUTE_REPARSE_POINT|syscall.FILE_ATTRIBUTE_DIRECTORY) != 0 {
		syscall.CloseHandle(h)
		return nil, errNotRegular
	}
	ino := uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
	return &conn{h: h, dev: uint64(info.VolumeSerialNumber), ino: ino}, nil
}

// The lock is on one byte far beyond the end of the data, because Windows does not let other
// processes read or write locked bytes.
const lockByteHigh = 0x7fffffff

func lockRange() *syscall.Overlapped { return &syscall.Overlapped{OffsetHigh: lockByteHigh} }

// tryLock takes or converts the lock, or returns errBusy. Windows counts locks, so a conversion
// first gives up the old lock.
func (c *conn) tryLock(shared bool) error {
	const (
		failImmediately = 1
		exclusive       = 2
		lockViolation   = syscall.Errno(33)
	)
	c.unlock()
	flags := uintptr(failImmediately)
	if !shared {
		flags |= exclusive
	}
	ok, _, err := lockFileEx.Call(uintptr(c.h), flags, 0, 1, 0, uintptr(unsafe.Pointer(lockRange())))
	switch {
	case ok != 0:
		return nil
	case err == lockViolation || err == syscall.ERROR_IO_PENDING:
		return errBusy
	}
	return err
}

func (c *conn) unlock() {
	_, _, _ = unlockFileEx.Call(uintptr(c.h), 0, 1, 0, uintptr(unsafe.Pointer(lockRange())))
}

func (*conn) current() (bool, error) { return true, nil }

func (*conn) isLinked() bool { return true }

func (c *conn) pread(b []byte, offset int64) (int, error) {
	var n uint32
	o := &syscall.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32)}
	err := syscall.ReadFile(c.h, b, &n, o)
	if err == syscall.ERROR_HANDLE_EOF {
		err = nil
	}
	return int(n), err
}

func (c *conn) pwrite(b []byte, offset int64) error {
	var n uint32
	o := &syscall.Overlapped{Offset: uint32(offset), OffsetHigh: uint32(offset >> 32)}
	err := syscall.WriteFile(c.h, b, &n, o)
	if err == nil && int(n) < len(b) {
		return io.ErrShortWrite
	}
	return err
}

func (c *conn) close() { _ = syscall.CloseHandle(c.h) }

// dup returns an error, because a lock on Windows belongs to one process.
func (*conn) dup(string) (*os.File, error) { return nil, errors.ErrUnsupported }
