package register_test

import (
	"context"
	"strconv"
	"strings"
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
	perClock(t, func(t *testing.T, s *shelf) {
		var fronts sync.Map // by store
		frontOf := func(store driver.Store) *front {
			f, _ := fronts.Load(store)
			return f.(*front)
		}
		for _, f := range drivertest.Check(drivertest.Harness{
			Open: func(context.Context) (driver.Store, error) {
				store, f := openOn(s)
				fronts.Store(store, f)
				return store, nil
			},
			LoseReply:     func(store driver.Store) error { frontOf(store).next(lost(true)); return nil },
			CutConnection: func(store driver.Store) error { frontOf(store).cut(); return nil },
			Pause:         func() (func() error, error) { return s.pause(), nil },
			SkewClock:     s.setClock,
			Restart:       func(keepData bool) error { return s.restart(keepData) },
			Logf:          t.Logf,
		}) {
			t.Error(f)
		}
	})
}

// A record is written as a whole, so it does not grow with each token that is released without a
// hold.
func TestRecordStaysSmall(t *testing.T) {
	s := newShelf(register.Clock{})
	store, f := openOn(s)
	defer store.Close()
	for i := range 30 {
		if _, err := store.Release(t.Context(), "name", "token "+strconv.Itoa(i), 0); err != nil {
			t.Fatal(err)
		}
	}
	v, err := f.Get(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(v.Data), `"until"`); n != 16 {
		t.Errorf("the record has %d tokens: %s", n, v.Data)
	}
}
