//go:build !unix

package filestore

import (
	"os/user"
	"path/filepath"
)

// defaultDir asks the system for the user's profile.
func defaultDir() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(u.HomeDir) {
		return "", errNoHome
	}
	return filepath.Join(u.HomeDir, "AppData", "Local", "padlock"), nil
}
