package filestore

import (
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// DefaultDir returns the directory for locks of the current user, and makes it
// if need be, for him only: /var/lib/padlock for root, .local/state/padlock
// under his home for others. The home is that of the user database, found by
// the effective user id: HOME, XDG_STATE_HOME and TMPDIR are not asked, so that
// a shell, cron and sudo mean the same place. Two users never share it.
//
// It answers driver.ErrUnavailable if there is no such directory and none can
// be made, or if it belongs to somebody else.
func DefaultDir() (string, error) {
	dir, err := defaultDir()
	if err != nil {
		return "", fmt.Errorf("%w: no default directory for locks: %w; name one with file:///dir", driver.ErrUnavailable, err)
	}
	// Whether its file system will do is for Open to say.
	if err := prepareDir(dir, &config{create: true, network: true}); err != nil {
		return "", err
	}
	return dir, nil
}

// errNoHome says that the user database has no home for this user.
var errNoHome = errors.New("the user database has no home directory for this user")
