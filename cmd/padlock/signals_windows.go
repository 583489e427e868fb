package main

import (
	"os"
	"os/signal"
	"syscall"
)

var signalNames = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}

var fromStart = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

var whileRunning []os.Signal

func catch(c chan<- os.Signal, sigs []os.Signal) { signal.Notify(c, sigs...) }

func ends(os.Signal) bool { return true }

func forCommand(os.Signal) bool { return false }

func isPipe(os.Signal) bool     { return false }
func isContinue(os.Signal) bool { return false }

func isInterrupt(s syscall.Signal) bool { return s == syscall.SIGINT }
