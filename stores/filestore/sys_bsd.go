//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package filestore

import "syscall"

func (c *conn) flock(how int) error { return syscall.Flock(c.fd, how) }

// statPath returns the state of the file at path. The path must end with a zero byte.
func statPath(path string) (fileState, error) {
	var st syscall.Stat_t
	err := syscall.Lstat(path[:len(path)-1], &st)
	return stateOfStat(&st), err
}

func statConn(c *conn) (fileState, error) {
	var st syscall.Stat_t
	err := syscall.Fstat(c.fd, &st)
	return stateOfStat(&st), err
}
