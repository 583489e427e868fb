package register_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
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

// A reader of a full record can be handed on, even to a holder with the longest label. The record
// keeps room for the clean-up, however many readers are handed on.
func TestAdoptInAFullRecord(t *testing.T) {
	perClock(t, func(t *testing.T, s *shelf) {
		s.limit = 64 << 10
		store := register.New(s.open(), register.Options{Name: "shelf", Clock: s.clock, MaxData: s.limit})
		defer store.Close()
		reader := func() driver.Request {
			r := request("readers")
			r.Shared, r.Holder.Label = true, strings.Repeat("<", 100)
			return r
		}
		var tokens []string
		for {
			r := reader()
			_, err := store.Acquire(t.Context(), r)
			if errors.Is(err, driver.ErrUnavailable) && len(tokens) > 50 {
				break
			} else if err != nil {
				t.Fatalf("after %d readers: %v", len(tokens), err)
			}
			tokens = append(tokens, r.Token)
		}
		refused := error(nil)
		for n := 0; n < len(tokens) && refused == nil; n++ {
			next := reader()
			next.Replaces, next.Holder.Label = tokens[n], strings.Repeat("<", driver.MaxLabel)
			if _, refused = store.Acquire(t.Context(), next); refused != nil && n == 0 {
				t.Errorf("the first one: %v", refused)
			}
		}
		if !errors.Is(refused, driver.ErrUnavailable) || !strings.Contains(refused.Error(), "with this holder") {
			t.Errorf("the last one: %v", refused)
		}
		for range 20 {
			if _, err := store.Release(t.Context(), "readers", rand.Text(), 0); err != nil {
				t.Fatalf("the clean-up of a token without a hold: %v", err)
			}
		}
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
		breakWithALostReply(t, s)
	})
}

// breakWithALostReply shows that a Break without fences ends the hold that it has found, and not
// that of the next holder.
func breakWithALostReply(t *testing.T, s *shelf) {
	o := register.Options{Name: "shelf", Clock: s.clock, NoFences: true}
	f := s.open()
	store, other := register.New(f, o), register.New(s.open(), o)
	defer store.Close()
	defer other.Close()
	if _, err := store.Acquire(t.Context(), request("lost")); err != nil {
		t.Fatal(err)
	}
	next := request("lost")
	f.next(func(apply func() error) error {
		if err := apply(); err != nil {
			return err
		}
		if _, err := other.Acquire(t.Context(), next); err != nil {
			t.Errorf("after the Break: %v", err)
		}
		return errCut
	})
	if _, err := store.Break(t.Context(), "lost", 0); !errors.Is(err, driver.ErrUncertain) || errors.Is(err, driver.ErrLost) {
		t.Errorf("Break whose reply was lost: %v", err)
	}
	if _, err := other.Extend(t.Context(), next.Name, next.Token, 0); err != nil {
		t.Errorf("Break has ended the hold of the next holder: %v", err)
	}
	for _, effect := range []bool{true, false} {
		f.next(lost(effect))
		if _, err := store.Break(t.Context(), "lost", 0); err != nil {
			t.Errorf("Break with effect=%v, while nobody else comes: %v", effect, err)
		}
		if _, err := other.Acquire(t.Context(), request("lost")); err != nil {
			t.Errorf("after a Break with effect=%v: %v", effect, err)
		}
	}
}
