//go:build unix

package command

import (
	"os"
	"syscall"
)

// replaceProcess runs another program in this process. It returns only if that fails. Signals that
// this process ignores stay ignored, and open files that are passed on stay open.
func replaceProcess(path string, args []string) error {
	return &os.PathError{Op: "execve", Path: path, Err: syscall.Exec(path, args, os.Environ())}
}
