// Command padlock runs a command while holding a lock.
package main

import (
	"os"

	_ "github.com/padlock-go/padlock/cmd/padlock/internal/limits/early"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
)

func main() {
	if supervise.Called() {
		superviseJob()
	}
	if calledFlock() {
		os.Exit((&app{stdout: os.Stdout, stderr: os.Stderr}).flock("flock", os.Args[1:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// superviseJob runs the supervisor, which is the second process of a run.
func superviseJob() {
	signals := make(chan os.Signal, 64)
	catch(signals, fromStart)
	supervise.Main(signals, foregroundOfParent())
}
