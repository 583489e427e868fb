//go:build unix

package filestore

import (
	"fmt"
	"os"
	"syscall"

	"github.com/padlock-go/padlock/driver"
)

// checkAccess makes sure that nobody can put a file of his own in place of a
// lock file, except whom the user asked for.
func checkAccess(dir string, st os.FileInfo, allowed access) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	euid, perm := uint32(os.Geteuid()), st.Mode().Perm()
	switch {
	case allowed == private && sys.Uid != euid:
		return denied("%s belongs to user %d, not to us (%d): use a directory of your own, or ask for group=yes or world=yes", dir, sys.Uid, euid)
	case allowed == private && perm&0o020 != 0:
		return denied("%s can be written to by its group: chmod 700 it, or ask for group=yes", dir)
	}
	switch {
	case perm&0o002 != 0 && allowed != world:
		return denied("%s can be written to by everybody: chmod 700 it, or ask for world=yes", dir)
	case perm&0o002 != 0 && st.Mode()&os.ModeSticky == 0:
		return denied("%s can be written to by everybody and anybody can remove files of others in it: chmod +t it", dir)
	}
	return nil
}

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrUnavailable}, args...)...)
}
