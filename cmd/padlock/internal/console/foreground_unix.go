//go:build linux || darwin || freebsd

package console

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// OpenTerminal returns the terminal that controls this process, or nil if there is none.
func OpenTerminal() *os.File {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return f
}

// WorkInBackground lets this process write to the terminal while the command is in the foreground.
// This process can then also take the foreground back. Call WorkInBackground only after the command
// has started. Otherwise the command would inherit the setting.
func WorkInBackground() { signal.Ignore(syscall.SIGTTOU) }

// ForegroundOfParent returns a function to call after the parent process has died. The caller
// passes the command's process group. If the command is in the foreground of the terminal, the
// function gives the foreground back to the process group of the dead parent.
func ForegroundOfParent() func(group int) {
	front, err := syscall.Getpgid(os.Getppid())
	return func(group int) {
		if t := OpenTerminal(); t != nil && err == nil {
			if now, ok := Foreground(t.Fd()); ok && now == group {
				WorkInBackground()
				_ = SetForeground(t.Fd(), front)
			}
		}
	}
}

// Foreground returns the process group in the foreground of a terminal. It returns false if fd is
// no terminal.
func Foreground(fd uintptr) (group int, ok bool) {
	var g int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&g)))
	return int(g), errno == 0
}

// SetForeground gives the foreground of a terminal to a process group.
func SetForeground(fd uintptr, group int) error {
	g := int32(group)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&g)))
	if errno != 0 {
		return errno
	}
	return nil
}
