// Package early runs the supervisor, which is the second process of a run, before the rest of the
// program is initialised. That makes the start of the supervisor fast: most of the time would go
// into the clients of all stores, which only the first process needs.
//
// A Go program can initialise a package as soon as all its imports are initialised. If several
// packages are ready, the program initialises them in the alphabetical order of their import paths.
// So this package imports only packages that are initialised early. The same holds for the packages
// that it imports. A test of package command checks that nothing large is initialised before this
// package.
package early

import (
	"os"

	"github.com/padlock-go/padlock/cmd/padlock/internal/console"
	"github.com/padlock-go/padlock/cmd/padlock/internal/supervise"
)

func init() {
	if !supervise.Called() {
		return
	}
	// While packages are initialised, the runtime ties this goroutine to one thread. A switch
	// between this goroutine and another one is then slow. So the supervisor runs in a new
	// goroutine.
	go func() {
		signals := make(chan os.Signal, 64)
		console.Catch(signals, console.FromStart)
		supervise.Main(signals, console.ForegroundOfParent())
	}()
	select {}
}
