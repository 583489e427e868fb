// Command padlock runs a command while holding a lock.
package main

import "github.com/padlock-go/padlock/cmd/padlock/internal/command"

// release is the version of a release build, set by the linker.
var release string

func main() { command.Main(release) }
