package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/memstore"
)

func harness() drivertest.Harness {
	first := memstore.New()
	return drivertest.Harness{Open: func(context.Context) (driver.Store, error) { return first.Open(), nil }}
}

func TestContract(t *testing.T) { drivertest.Run(t, harness()) }

// In a bubble, hours of leases take no time.
func TestContractInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, f := range drivertest.Check(harness()) {
			t.Error(f)
		}
	})
}
