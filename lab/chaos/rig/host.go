// Package rig has everything that a soak needs in addition to the engine: the table of stores,
// their servers, and the faults of servers and connections.
package rig

import (
	"fmt"
	"testing"
)

// host implements testing.TB, so that a program that is not a test can use internal/server.
type host struct {
	testing.TB
	ends []func()
}

// failure is the value that Fatal, Fatalf and Skip panic with. The function try turns it into an
// error.
type failure struct{ why string }

func (e failure) Error() string { return e.why }

func (*host) Helper()                   {}
func (*host) Failed() bool              { return false }
func (h *host) Cleanup(f func())        { h.ends = append(h.ends, f) }
func (*host) Logf(string, ...any)       {}
func (*host) Errorf(string, ...any)     {}
func (*host) Fatal(a ...any)            { panic(failure{fmt.Sprint(a...)}) }
func (*host) Skip(a ...any)             { panic(failure{fmt.Sprint(a...)}) }
func (*host) Fatalf(f string, a ...any) { panic(failure{fmt.Sprintf(f, a...)}) }

// end runs the functions that were registered with Cleanup, the last one first.
func (h *host) end() {
	for len(h.ends) > 0 {
		last := len(h.ends) - 1
		f := h.ends[last]
		h.ends = h.ends[:last]
		f()
	}
}

// try runs f. If f ends by a call of Fatal, Fatalf or Skip, try returns an error.
func try(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case failure:
			err = e
		default:
			panic(e)
		}
	}()
	f()
	return nil
}
