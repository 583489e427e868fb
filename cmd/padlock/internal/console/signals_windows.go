// Package console handles signals and the terminal during a run.
package console

import (
	"os"
	"os/signal"
	"syscall"
)

// FromStart lists the signals that padlock catches from its start.
var FromStart = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// Catch sends signals to c.
func Catch(c chan<- os.Signal, sigs []os.Signal) { signal.Notify(c, sigs...) }
