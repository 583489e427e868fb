//go:build linux

package semstore

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
)

func TestContract(t *testing.T) {
	for hash := range hashes {
		t.Run(hash.String(), func(t *testing.T) {
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

// TestContractWithoutThreads runs the contract with waiters that the kernel does not wake.
func TestContractWithoutThreads(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Open:      func(context.Context) (driver.Store, error) { return Open(MD5, MaxThreads(0)) },
		Prefix:    unique(t, ""),
		Anonymous: true,
	})
}
