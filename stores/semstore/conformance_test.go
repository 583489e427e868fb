//go:build linux

package semstore

import (
	"context"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
)

func TestContract(t *testing.T) {
	for _, hash := range symfonys {
		t.Run(hash.String(), func(t *testing.T) {
			if hash != MD5 {
				server.Thorough(t) // the hashes differ in the keys of names only
			}
			p := php(t, hash)
			drivertest.Run(t, drivertest.Harness{
				Open:      func(context.Context) (driver.Store, error) { return Open(hash) },
				Prefix:    unique(t, ""),
				Anonymous: true,
				Foreign: func(name string) (func() error, error) {
					p.want("acquire", name, "got it")
					return func() error { p.want("release", name, "released"); return nil }, nil
				},
			})
		})
	}
}

// TestContractOfKeptSemaphores runs the contract with semaphores that a release keeps, as with
// NoHash.
func TestContractOfKeptSemaphores(t *testing.T) {
	server.Thorough(t)
	prefix := unique(t, "")
	var names sync.Map
	t.Cleanup(func() {
		for name := range names.Range {
			if set, err := find(MD5.key(name.(string)), false); err == nil {
				_ = remove(set)
			}
		}
	})
	drivertest.Run(t, drivertest.Harness{
		Open: func(context.Context) (driver.Store, error) {
			s, err := Open(MD5)
			s.config.keep = true
			s.config.key = func(name string) int32 { names.Store(name, nil); return MD5.key(name) }
			return s, err
		},
		Prefix:    prefix,
		Anonymous: true,
	})
}

// TestContractWithoutThreads runs the contract with waiters that the kernel does not wake.
func TestContractWithoutThreads(t *testing.T) {
	server.Thorough(t)
	drivertest.Run(t, drivertest.Harness{
		Open:      func(context.Context) (driver.Store, error) { return Open(MD5, MaxThreads(0)) },
		Prefix:    unique(t, ""),
		Anonymous: true,
	})
}
