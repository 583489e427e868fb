package filestore

import "syscall"

const errQuota = syscall.Errno(1295) // ERROR_DISK_QUOTA_EXCEEDED

// tooMany reports whether the limit of open files was reached. Windows has no such limit.
func tooMany(error) bool { return false }
