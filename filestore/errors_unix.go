//go:build !windows && !plan9

package filestore

import "syscall"

// These are the errors of the system for which advise has advice.
var (
	tooManyFiles = []error{syscall.EMFILE, syscall.ENFILE}
	readOnly     = []error{syscall.EROFS}
	diskFull     = []error{syscall.ENOSPC, syscall.EDQUOT}
)

// tooMany reports whether the limit of open files was reached.
func tooMany(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }
