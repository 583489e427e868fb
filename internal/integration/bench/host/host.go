// Package host lets programs that are no tests start servers with package
// internal/server.
package host

import (
	"fmt"
	"testing"
)

// A Host stands in for a test. Its zero value is ready; call End.
type Host struct {
	testing.TB
	ends []func()
}

// noServer says why there is none.
type noServer struct{ why string }

// Error tells why there is no server.
func (e noServer) Error() string { return e.why }

// Helper does nothing.
func (*Host) Helper() {}

// Failed is false.
func (*Host) Failed() bool { return false }

// Cleanup remembers f for End.
func (h *Host) Cleanup(f func()) { h.ends = append(h.ends, f) }

// Logf does nothing.
func (*Host) Logf(string, ...any) {}

// Errorf does nothing: it is called when the end of a server went wrong.
func (*Host) Errorf(string, ...any) {}

// Fatal ends what Try runs.
func (*Host) Fatal(a ...any) { panic(noServer{fmt.Sprint(a...)}) }

// Skip ends what Try runs.
func (*Host) Skip(a ...any) { panic(noServer{fmt.Sprint(a...)}) }

// Skipf ends what Try runs.
func (*Host) Skipf(f string, a ...any) { panic(noServer{fmt.Sprintf(f, a...)}) }

// Fatalf ends what Try runs.
func (*Host) Fatalf(f string, a ...any) { panic(noServer{fmt.Sprintf(f, a...)}) }

// Try calls f, in which servers are started, and tells why that failed.
func (h *Host) Try(f func(t testing.TB)) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case noServer:
			err = e
		default:
			panic(e)
		}
	}()
	f(h)
	return nil
}

// End stops what was started, the last first.
func (h *Host) End() {
	for len(h.ends) > 0 {
		last := len(h.ends) - 1
		f := h.ends[last]
		h.ends = h.ends[:last]
		f()
	}
}
