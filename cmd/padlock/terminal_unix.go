//go:build linux || darwin || freebsd

package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// terminal is the terminal that controls this process. Its foreground is the process group that may
// read from it and that gets Ctrl-C and Ctrl-Z.
type terminal struct {
	file  *os.File
	given bool // the command has the foreground
}

// findTerminal returns the controlling terminal, or nil if there is none.
func findTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{file: f}
}

// The method ours reports whether the foreground is this process's group.
func (t *terminal) ours() bool {
	group, ok := foreground(t.file.Fd())
	return ok && group == syscall.Getpgrp()
}

// interactive reports whether the command reads and writes the terminal. In a pipeline, other
// programs such as a pager use the terminal too. If the command got the terminal, these programs
// would be stopped.
func (t *terminal) interactive() bool {
	_, in := foreground(0)
	_, out := foreground(1)
	return in && out
}

// give gives the foreground to the command if this process has it. It reports whether the command
// has it now.
func (t *terminal) give(group int) bool {
	if now, ok := foreground(t.file.Fd()); ok && now == group {
		return true
	}
	if !t.ours() || setForeground(t.file.Fd(), group) != nil {
		return false
	}
	t.given = true
	return true
}

// takeBack takes the foreground back from the command, and reports whether the command had it.
func (t *terminal) takeBack() bool {
	had := t.given
	if had {
		t.given = false
		_ = setForeground(t.file.Fd(), syscall.Getpgrp())
	}
	return had
}

// If padlock is in the foreground group, interruptGroup has the effect of Ctrl-C. It also ends the
// script that runs padlock.
func interruptGroup() {
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
}

// stopSelf stops this process with the signal that stopped the command, so that the shell notices.
// It may return before the process has stopped.
func (t *terminal) stopSelf() {
	t.given = false // the shell takes the foreground
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// workInBackground lets this process write to the terminal, and take the foreground back, while the
// command has the foreground. Call it after the command has started, because the command would
// inherit the setting.
func workInBackground() { signal.Ignore(syscall.SIGTTOU) }

// foregroundOfParent returns a function to call after the parent has died. If another group is in
// the foreground by then, the function gives the foreground back to the parent's present group.
func foregroundOfParent() func(group int) {
	front, err := syscall.Getpgid(os.Getppid())
	return func(group int) {
		if t := findTerminal(); t != nil && err == nil {
			if now, ok := foreground(t.file.Fd()); ok && now == group {
				workInBackground()
				_ = setForeground(t.file.Fd(), front)
			}
		}
	}
}

func foreground(fd uintptr) (group int, ok bool) {
	var g int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&g)))
	return int(g), errno == 0
}

// atTerminal reports whether standard error is the terminal and this process is in the foreground,
// so that its output disturbs no other program.
func atTerminal() bool {
	group, ok := foreground(2)
	return ok && group == syscall.Getpgrp()
}

// terminalWidth returns the number of columns, or 0 if it is unknown.
func terminalWidth() int {
	var size struct{ rows, columns, _, _ uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 2, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0
	}
	return int(size.columns)
}

func setForeground(fd uintptr, group int) error {
	g := int32(group)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&g)))
	if errno != 0 {
		return errno
	}
	return nil
}

// wantsTerminal reports whether a signal stopped a process that used the terminal from the
// background.
func wantsTerminal(s syscall.Signal) bool { return s == syscall.SIGTTIN || s == syscall.SIGTTOU }

// byTerminal reports whether the shell must notice a stop by this signal.
func byTerminal(s syscall.Signal) bool { return wantsTerminal(s) || s == syscall.SIGTSTP }
