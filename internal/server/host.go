package server

import (
	"fmt"
	"testing"
)

// A Host implements [testing.TB] outside of a test, so that a program can start servers. The
// zero value is ready for use. The program must call End at the end.
type Host struct {
	testing.TB
	ends []func()
}

// noServer is the reason why a server could not be started.
type noServer struct{ why string }

// Error returns the reason.
func (e noServer) Error() string { return e.why }

// Helper does nothing.
func (*Host) Helper() {}

// Failed returns false.
func (*Host) Failed() bool { return false }

// Cleanup registers f to be called by End.
func (h *Host) Cleanup(f func()) { h.ends = append(h.ends, f) }

// Logf does nothing.
func (*Host) Logf(string, ...any) {}

// Errorf does nothing. It is called if stopping a server failed.
func (*Host) Errorf(string, ...any) {}

// Fatal ends the function that Try runs.
func (*Host) Fatal(a ...any) { panic(noServer{fmt.Sprint(a...)}) }

// Skip ends the function that Try runs.
func (*Host) Skip(a ...any) { panic(noServer{fmt.Sprint(a...)}) }

// Skipf ends the function that Try runs.
func (*Host) Skipf(f string, a ...any) { panic(noServer{fmt.Sprintf(f, a...)}) }

// Fatalf ends the function that Try runs.
func (*Host) Fatalf(f string, a ...any) { panic(noServer{fmt.Sprintf(f, a...)}) }

// Try calls f, which starts servers. If f fails, Try returns the reason.
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

// End stops the servers in the reverse order of their start.
func (h *Host) End() {
	for len(h.ends) > 0 {
		last := len(h.ends) - 1
		f := h.ends[last]
		h.ends = h.ends[:last]
		f()
	}
}
