//go:build !unix

// Package early is empty on this system.
package early
