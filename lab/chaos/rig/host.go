// Package rig has everything that a soak needs in addition to the engine: the table of stores,
// their servers, and the faults of servers and connections.
package rig

import (
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// try runs f, which changes servers of a site. If one of them cannot be changed, or must gets an
// error, try returns why.
func try(f func()) error { return new(server.Host).Try(func(testing.TB) { f() }) }

// must ends the function that try runs if there is an error.
func must(err error) {
	if err != nil {
		new(server.Host).Fatal(err)
	}
}

// got returns a value, or ends the function that try runs if there is an error.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// built makes the build of a Row from a function that runs within try.
func built(f func(*Site) *setup) func(*Site) (*setup, error) {
	return func(s *Site) (set *setup, err error) {
		err = try(func() { set = f(s) })
		return set, err
	}
}
