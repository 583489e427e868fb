//go:build !windows && !plan9

package filestore

import "syscall"

const errQuota = syscall.EDQUOT

// tooMany reports whether the limit of open files was reached.
func tooMany(err error) bool { return err == syscall.EMFILE || err == syscall.ENFILE }
