//go:build unix

package command

import "syscall"

// ownSession returns attributes that give a new process its own session. So the new process does
// not end with the terminal, or with a signal to the process group of this process.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
