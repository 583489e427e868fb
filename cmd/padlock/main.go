// Command padlock runs a command while holding a lock.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	_ "github.com/padlock-go/padlock/open" // the stores it will choose from
)

// main is a placeholder until the verbs stand: it knows its version only, so
// that the release check has something to ask.
func main() {
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println("padlock", version())
		return
	}
	fmt.Fprintln(os.Stderr, "padlock: only `padlock version` works so far")
	os.Exit(64)
}

// version is what `go install …@version` recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
