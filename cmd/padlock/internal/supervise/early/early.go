// Package early runs the supervisor, which is the second process of a run, before the rest of the
// program is initialised. The clients of all stores, which only the first process needs, take most
// of the time of a start.
//
// Go initialises the packages whose imports are initialised in the order of their import paths. So
// this package, and those that it imports, import only packages that are initialised early. A test
// of package main checks that nothing large is initialised before this package.
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
	// While packages are initialised, the runtime ties this goroutine to one thread. In another
	// goroutine the supervisor switches between goroutines faster.
	go func() {
		signals := make(chan os.Signal, 64)
		console.Catch(signals, console.FromStart)
		supervise.Main(signals, console.ForegroundOfParent())
	}()
	select {}
}
