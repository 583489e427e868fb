// Command padlock runs a command while holding a lock.
package main

import (
	"os"

	_ "github.com/padlock-go/padlock/cmd/padlock/internal/limits/early"
	_ "github.com/padlock-go/padlock/cmd/padlock/internal/supervise/early"
)

func main() {
	if calledFlock() {
		os.Exit((&app{stdout: os.Stdout, stderr: os.Stderr}).flock("flock", os.Args[1:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
