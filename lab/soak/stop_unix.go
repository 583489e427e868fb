//go:build unix

package soak

import (
	"os"
	"syscall"
)

// stop and proceed are the signals that stop a process and let it continue.
var stop, proceed os.Signal = syscall.SIGSTOP, syscall.SIGCONT
