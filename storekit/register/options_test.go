package register_test

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
)

// A record that is near the limit of the service takes no more readers. Its holders can still renew
// and release, and others come in when they have left.
func TestManyReaders(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		s.limit = 64 << 10
		store := register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, MaxData: s.limit})
		defer store.Close()
		overhttptest.CheckReaders(t, store, 5)
	})
}

// A store without fences has none in any answer, and Break needs none.
func TestNoFences(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		store := register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, NoFences: true})
		defer store.Close()
		for _, failure := range drivertest.Check(drivertest.Harness{Open: func(context.Context) (driver.Store, error) {
			return register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, NoFences: true}), nil
		}}) {
			t.Error(failure)
		}
		if _, err := store.Acquire(t.Context(), request("job")); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Break(t.Context(), "job", 1); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Break of a fence: %v", err)
		}
		if fence, err := store.Break(t.Context(), "job", 0); fence != 0 || err != nil {
			t.Errorf("Break: %d, %v", fence, err)
		}
	})
}
