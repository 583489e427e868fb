//go:build !linux && !darwin && !freebsd

package console

// ForegroundOfParent returns a function that does nothing: terminals are not handled on this
// system.
func ForegroundOfParent() func(int) { return func(int) {} }

// WorkInBackground does nothing on this system.
func WorkInBackground() {}
