//go:build unix && !linux

package command

import "syscall"

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func parentOf(int) int { return 0 }
