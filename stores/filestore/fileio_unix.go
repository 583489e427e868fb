//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package filestore

import (
	"io"
	"syscall"
)

func openFile(path string, flags int, perm uint32) (fd int, err error) {
	for {
		if fd, err = syscall.Open(path, flags, perm); err != syscall.EINTR {
			return fd, err
		}
	}
}

// pread reads once, which is enough for a regular file.
func (c *conn) pread(b []byte, offset int64) (n int, err error) {
	for {
		if n, err = syscall.Pread(c.fd, b, offset); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func (c *conn) pwrite(b []byte, offset int64) error {
	for {
		n, err := syscall.Pwrite(c.fd, b, offset)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n < len(b) {
			return io.ErrShortWrite
		}
		return err
	}
}

// fileState has the identity of a file.
type fileState struct{ dev, ino uint64 }

func stateOfStat(st *syscall.Stat_t) fileState {
	return fileState{uint64(st.Dev), uint64(st.Ino)}
}
