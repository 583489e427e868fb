//go:build unix

// Package console handles signals and the terminal. The command "padlock run" has two processes,
// and both import this package: one process holds the lock, and the other one is the supervisor.
// The package imports only a few packages, because the supervisor must start fast. Package
// supervise/early explains this.
package console

import (
	"os"
	"os/signal"
	"syscall"
)

// FromStart lists the signals that padlock catches from its start. SIGPIPE is one of them because a
// broken pipe must not kill padlock: that would end the command too. SIGUSR1 and SIGUSR2 are passed
// on to the command once the command runs.
var FromStart = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
}

// Catch makes the given signals arrive on c. If a signal was ignored when padlock started, as with
// nohup, padlock and the command continue to ignore it.
func Catch(c chan<- os.Signal, sigs []os.Signal) {
	for _, s := range sigs {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}
