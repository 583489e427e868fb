//go:build unix

package command

import (
	"os"
	"syscall"
)

var signalNames = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
	"KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM,
	"CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP, "WINCH": syscall.SIGWINCH,
}

// whileRunning lists the signals that padlock catches only after the command has started. Until
// then, Ctrl-Z stops padlock like any other program.
var whileRunning = []os.Signal{syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP}

// asksToEnd reports whether a signal asks a program to end.
func asksToEnd(s os.Signal) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// forCommand reports whether a signal has a meaning only for the program that expects it. If it
// were sent to the whole group, it would kill the other processes.
func forCommand(s os.Signal) bool { return s == syscall.SIGUSR1 || s == syscall.SIGUSR2 }

func isPipe(s os.Signal) bool     { return s == syscall.SIGPIPE }
func isContinue(s os.Signal) bool { return s == syscall.SIGCONT }

func isInterrupt(s syscall.Signal) bool { return s == syscall.SIGINT }
