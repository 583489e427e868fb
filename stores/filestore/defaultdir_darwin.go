package filestore

import (
	"os"
	"os/user"
)

// defaultDir gets the home directory from the system's library. On macOS the library does not use
// HOME.
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
