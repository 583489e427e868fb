//go:build !linux

package sqlite

// networkKind returns "", because this system offers no way to tell.
func networkKind(string) string { return "" }
