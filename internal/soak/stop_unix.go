//go:build unix

package soak

import (
	"os"
	"syscall"
)

// stop and proceed are the signals that make a process stand still and go on.
var stop, proceed os.Signal = syscall.SIGSTOP, syscall.SIGCONT
