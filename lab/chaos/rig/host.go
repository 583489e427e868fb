// Package rig has everything that a soak needs in addition to the engine: the table of stores,
// their servers, and the faults of servers and connections.
package rig

import (
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// try runs f, which changes servers of a site. If one of them cannot be changed, try returns why.
func try(f func()) error { return new(server.Host).Try(func(testing.TB) { f() }) }
