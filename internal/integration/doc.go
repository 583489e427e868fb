// Package integration holds the tests that need more than one module, a PHP program, or a server
// that the root module must not require. Its module is never tagged.
package integration

import _ "github.com/padlock-go/padlock/open/all" // the stores that the tests use
