//go:build unix

// Package console is what both processes of a run do with signals and with the terminal. It imports
// little: see package early.
package console

import (
	"os"
	"os/signal"
	"syscall"
)

// FromStart are the signals that padlock catches from its start. A broken pipe must not kill
// padlock, because that would end the command too. The other two signals are passed on to the
// command once it runs.
var FromStart = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
}

// Catch sends signals to c, except those that were ignored when padlock started, as with nohup. The
// command then ignores them too.
func Catch(c chan<- os.Signal, sigs []os.Signal) {
	for _, s := range sigs {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}
