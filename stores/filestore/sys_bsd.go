//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package filestore

import "syscall"

// statPath returns the state of the file at path. The path must end with a zero byte.
func statPath(path string) (fileState, error) {
	var st syscall.Stat_t
	err := syscall.Lstat(path[:len(path)-1], &st)
	return stateOfStat(&st), err
}
