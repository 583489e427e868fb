//go:build !windows && !plan9

package filestore

import "syscall"

// The function advise tells the user what to do about these errors of the system.
var (
	tooManyFiles = []error{syscall.EMFILE, syscall.ENFILE}
	readOnly     = []error{syscall.EROFS}
	diskFull     = []error{syscall.ENOSPC, syscall.EDQUOT}
)

// tooMany reports whether the limit of open files was reached.
func tooMany(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }
