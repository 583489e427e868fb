//go:build !linux

package sqlite

// networkKind is not known on this system.
func networkKind(string) string { return "" }
