//go:build unix

package filestore

import (
	"fmt"
	"os"
	"syscall"

	"github.com/padlock-go/padlock/driver"
)

// checkAccess returns an error if users who are not allowed to use the directory could replace a
// lock file.
func checkAccess(dir string, st os.FileInfo, allowed access) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	euid, perm := uint32(os.Geteuid()), st.Mode().Perm()
	switch {
	case allowed == private && sys.Uid != euid:
		return denied("%s belongs to user %d and this program runs as user %d: use a directory of your own, or add AllowGroup (group=yes) or AllowWorld (world=yes)", dir, sys.Uid, euid)
	case allowed != world && perm&0o002 != 0 && st.Mode()&os.ModeSticky != 0:
		return denied("%s can be written to by everybody, like /tmp: use a directory of your own below it, or add AllowWorld (world=yes)", dir)
	case allowed == private && perm&0o020 != 0:
		return denied("%s can be written to by its group: chmod 700 it, or add AllowGroup (group=yes)", dir)
	}
	switch {
	case perm&0o002 != 0 && allowed != world:
		return denied("%s can be written to by everybody: chmod 700 it, or add AllowWorld (world=yes)", dir)
	case perm&0o002 != 0 && st.Mode()&os.ModeSticky == 0:
		return denied("%s can be written to by everybody, and every user can remove the files of others: chmod +t it", dir)
	}
	return nil
}

func denied(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrUnavailable}, args...)...)
}
