// Package rig has what a soak needs beside the engine: the table of stores,
// their servers, and the faults of servers and connections.
package rig

import (
	"fmt"
	"testing"
)

// host lets internal/server serve a program that is no test.
type host struct {
	testing.TB
	ends []func()
}

// failure is how the host ends what cannot go on.
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

// end undoes all in the opposite order.
func (h *host) end() {
	for len(h.ends) > 0 {
		last := len(h.ends) - 1
		f := h.ends[last]
		h.ends = h.ends[:last]
		f()
	}
}

// try runs f, which ends by panic where a test would fail.
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
