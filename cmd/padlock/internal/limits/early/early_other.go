//go:build !unix

// Package early has nothing to do on this system.
package early
