package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/memstore"
)

// In a bubble, hours of leases take no time.
func TestContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := memstore.New()
		open := func(context.Context) (driver.Store, error) { return first.Open(), nil }
		for _, f := range drivertest.Check(drivertest.Harness{Open: open, Logf: t.Logf}) {
			t.Error(f)
		}
	})
}
