//go:build !linux

package limits

// room returns true, because the limit is unknown on this system.
func room(int) bool { return true }
