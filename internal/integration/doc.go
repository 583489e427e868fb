// Package integration holds the tests that need more than one module, a PHP
// peer or a server that the root module must not require. It is never tagged.
package integration

import _ "github.com/padlock-go/padlock/open/all" // the stores it tries
