package filestore

import "syscall"

// The function advise tells the user what to do about these errors of the system.
var (
	tooManyFiles = []error{syscall.EMFILE, syscall.ENFILE}
	readOnly     = []error{syscall.EROFS}
	diskFull     = []error{syscall.ENOSPC, syscall.Errno(1295)} // the second is ERROR_DISK_QUOTA_EXCEEDED
)

// tooMany reports whether the limit of open files was reached. Windows has no such limit.
func tooMany(error) bool { return false }
