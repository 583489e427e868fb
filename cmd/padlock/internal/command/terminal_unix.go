//go:build linux || darwin || freebsd

package command

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/padlock-go/padlock/cmd/padlock/internal/console"
)

// terminal is the terminal that controls this process. Its foreground is the process group that may
// read from it and that gets Ctrl-C and Ctrl-Z.
type terminal struct {
	file  *os.File
	given bool // the command has the foreground
}

// findTerminal returns the controlling terminal, or nil if there is none.
func findTerminal() *terminal {
	if f := console.OpenTerminal(); f != nil {
		return &terminal{file: f}
	}
	return nil
}

// hasForeground reports whether this process's group is in the foreground.
func (t *terminal) hasForeground() bool {
	group, ok := console.Foreground(t.file.Fd())
	return ok && group == syscall.Getpgrp()
}

// interactive reports whether the command reads and writes the terminal. In a pipeline, other
// programs such as a pager use the terminal too. If the command got the terminal, these programs
// would be stopped.
func (t *terminal) interactive() bool {
	_, in := console.Foreground(0)
	_, out := console.Foreground(1)
	return in && out
}

// giveForeground gives the terminal's foreground to the command, if padlock has the foreground. It
// reports whether the command has the foreground when giveForeground returns.
func (t *terminal) giveForeground(group int) bool {
	if now, ok := console.Foreground(t.file.Fd()); ok && now == group {
		return true
	}
	if !t.hasForeground() || console.SetForeground(t.file.Fd(), group) != nil {
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
		_ = console.SetForeground(t.file.Fd(), syscall.Getpgrp())
	}
	return had
}

// If padlock is in the foreground group, interruptGroup has the effect of Ctrl-C. It also ends the
// script that runs padlock.
func interruptGroup() {
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
}

// stopSelf stops this process, so that the shell notices that the command has stopped. It may
// return before the process has stopped.
func (t *terminal) stopSelf() {
	t.given = false // the shell takes the foreground
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// atTerminal reports whether standard error is the terminal and this process is in the foreground,
// so that its output disturbs no other program.
func atTerminal() bool {
	group, ok := console.Foreground(2)
	return ok && group == syscall.Getpgrp()
}

// wantsTerminal reports whether the system sends the signal s to a background process that reads
// from the terminal or writes to it. The signal stops the process.
func wantsTerminal(s syscall.Signal) bool { return s == syscall.SIGTTIN || s == syscall.SIGTTOU }

// byTerminal reports whether the signal s stops a job because of the terminal. That happens after
// Ctrl-Z, or if the job uses the terminal in the background. The shell must notice such a stop.
func byTerminal(s syscall.Signal) bool { return wantsTerminal(s) || s == syscall.SIGTSTP }
