package filestore

import (
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// DefaultDir returns the directory for locks of the current user. If it does not exist, DefaultDir
// makes it, for this user only. It is /var/lib/padlock for root, and .local/state/padlock under the
// home directory for other users. The home directory is the one that the user database has for the
// effective user id. HOME, XDG_STATE_HOME and TMPDIR have no effect, so that a shell, cron and sudo
// use the same directory. Two users never share it.
//
// DefaultDir returns driver.ErrUnavailable if there is no such directory and none can be made, or
// if it belongs to another user.
func DefaultDir() (string, error) {
	dir, err := defaultDir()
	if err != nil {
		return "", fmt.Errorf("%w: no default directory for locks: %w; name one with file:///dir", driver.ErrUnavailable, err)
	}
	// Every file system is allowed here, because Open checks it later.
	if err := prepareDir(dir, &config{create: true, network: true}); err != nil {
		return "", err
	}
	return dir, nil
}

var errNoHome = errors.New("the user database has no home directory for this user")
