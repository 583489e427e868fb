//go:build unix

package command

import (
	"io/fs"
	"os"
	"syscall"
)

// ofOthers reports whether a file belongs to a user other than this one and root.
func ofOthers(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Uid != 0 && sys.Uid != uint32(os.Geteuid())
}
