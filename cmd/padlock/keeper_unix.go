//go:build unix

package main

import "syscall"

// ownSession returns attributes that give a process a session of its own. So neither a terminal nor
// a signal to this process's group ends that process.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
