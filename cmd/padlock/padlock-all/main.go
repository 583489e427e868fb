// Command padlock-all is padlock with every store and with the page of padlock serve. Command
// padlock switches to it when it has to.
package main

import (
	"github.com/padlock-go/padlock/cmd/padlock/internal/command"
	"github.com/padlock-go/padlock/open/all"
)

// release is the version of a release build, set by the linker.
var release string

func main() { command.MainOfAll(release, all.Schemes()) }
