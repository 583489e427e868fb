//go:build !linux && !darwin && !freebsd

package flockmode

import "runtime"

type lock struct{}

func (*options) open() (*lock, error) {
	return nil, fail(exitUnavailable, "there are no such locks on %s; use padlock run", runtime.GOOS)
}

func (*lock) take(*options) error              { return nil }
func (*lock) runCommand(*options) (int, error) { return 0, nil }
