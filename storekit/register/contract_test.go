package register_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/register"
)

var clocks = map[string]register.Clock{
	"exact":    {},
	"grain":    {Grain: 100 * time.Millisecond},
	"skew":     {Grain: 10 * time.Millisecond, Skew: 300 * time.Millisecond},
	"observed": {Observed: true},
}

// The store passes the suite with each clock, over front ends whose clocks differ by Skew.
func TestContract(t *testing.T) {
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(clock)
			var mu sync.Mutex
			fronts := map[driver.Store]*front{}
			drivertest.Run(t, drivertest.Harness{
				Open: func(context.Context) (driver.Store, error) {
					f := s.open()
					store := register.New(f, register.Options{Name: "shelf", Clock: clock})
					mu.Lock()
					defer mu.Unlock()
					fronts[store] = f
					return store, nil
				},
			})
		})
	}
}
