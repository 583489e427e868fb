// Command padlock is padlock as scripts run it. It has only the stores of padlock, so it starts much
// faster than a test binary with every store. overlay.json makes scripts_test.go a part of package
// command.
package main

import "github.com/padlock-go/padlock/cmd/padlock/internal/command"

func main() { command.MainOfScripts() }
