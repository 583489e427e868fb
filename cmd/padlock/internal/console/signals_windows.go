// Package console is what both processes of a run do with signals and with the terminal.
package console

import (
	"os"
	"os/signal"
	"syscall"
)

// FromStart are the signals that padlock catches from its start.
var FromStart = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// Catch sends signals to c.
func Catch(c chan<- os.Signal, sigs []os.Signal) { signal.Notify(c, sigs...) }
