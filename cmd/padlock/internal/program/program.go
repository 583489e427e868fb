// Package program finds the program of a command.
package program

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns the path of a command, and searches PATH as execvp(3) does. The error is
// fs.ErrNotExist or fs.ErrPermission.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if _, set := os.LookupEnv("PATH"); !set && errors.Is(err, exec.ErrNotFound) {
		path, err = findWithoutPath(name)
	}
	switch {
	case errors.Is(err, exec.ErrDot):
		return path, nil // a dot in PATH shows that the user allows the current directory
	case errors.Is(err, exec.ErrNotFound):
		return "", fs.ErrNotExist
	case err != nil:
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return "", err
	}
	return path, nil
}

// findWithoutPath searches the directories that the system uses if PATH is not set.
func findWithoutPath(name string) (path string, err error) {
	for _, dir := range []string{"/bin", "/usr/bin"} {
		if path, err = exec.LookPath(filepath.Join(dir, name)); err == nil {
			break
		}
	}
	return path, err
}
