package filestore

import (
	"os"
	"os/user"
)

// defaultDir asks the system's library, which on macOS does not use HOME.
func defaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return rootDir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return stateDir(u.HomeDir)
}
