//go:build unix

package filestore

import (
	"path/filepath"
)

// rootDir is where root keeps locks.
const rootDir = "/var/lib/padlock"

func stateDir(home string) (string, error) {
	if !filepath.IsAbs(home) || home == "/" {
		return "", errNoHome
	}
	return filepath.Join(home, ".local", "state", "padlock"), nil
}
