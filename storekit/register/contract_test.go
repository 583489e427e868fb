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
			var fronts sync.Map // by store
			frontOf := func(store driver.Store) *front {
				f, _ := fronts.Load(store)
				return f.(*front)
			}
			drivertest.Run(t, drivertest.Harness{
				Open: func(context.Context) (driver.Store, error) {
					store, f := openOn(s)
					fronts.Store(store, f)
					return store, nil
				},
				LoseReply:     func(store driver.Store) error { frontOf(store).next(lost(true)); return nil },
				CutConnection: func(store driver.Store) error { frontOf(store).cut(); return nil },
				Pause:         func() (func() error, error) { return s.pause(), nil },
				Restart:       func(keepData bool) error { return s.restart(keepData) },
			})
		})
	}
}
