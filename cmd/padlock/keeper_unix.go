//go:build unix

package main

import "syscall"

// ownSession makes a process one that no terminal and no signal to this process's group ends.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
