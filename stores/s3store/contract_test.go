package s3store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The store passes the suite, over front ends whose clocks differ by the skew, and whose Date has
// whole seconds.
func TestContract(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) { checkContract(t, s, s3store.DefaultSkew) })
}

func checkContract(t *testing.T, s *service, skew time.Duration) {
	var fronts sync.Map // by store
	frontOf := func(store driver.Store) *front {
		f, _ := fronts.Load(store)
		return f.(*front)
	}
	failures := drivertest.Check(drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			store, f, err := s.openOn(ctx, skew)
			if err != nil {
				return nil, err
			}
			fronts.Store(store, f)
			return store, nil
		},
		LoseReply:     func(store driver.Store) error { frontOf(store).next("PUT", 1, lose(true)); return nil },
		CutConnection: func(store driver.Store) error { return frontOf(store).cut() },
		Pause:         s.pause,
		Restart: func(keepData bool) error {
			fronts.Range(func(_, f any) bool { f.(*front).cut(); return true })
			if !keepData {
				s.empty()
			}
			return nil
		},
		Logf: t.Logf,
	})
	for _, f := range failures {
		t.Error(f)
	}
}
