package command

import (
	"os"
	"syscall"
)

var signalNames = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}

var whileRunning []os.Signal

func asksToEnd(os.Signal) bool { return true }

func forCommand(os.Signal) bool { return false }

func isPipe(os.Signal) bool     { return false }
func isContinue(os.Signal) bool { return false }

func isInterrupt(s syscall.Signal) bool { return s == syscall.SIGINT }
