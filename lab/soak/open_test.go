package soak

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A worker that opens its store while the server is silent tries again for as long as there are
// faults, and for openPatience after that.
func TestOpenPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		defer store.Close()
		silent := errors.New("no answer")
		begun := time.Now()
		openAfter := func(d time.Duration) Opener {
			return func(context.Context, string) (driver.Store, error) {
				if time.Since(begun) < d {
					return nil, silent
				}
				return store, nil
			}
		}
		overAfter := func(d time.Duration) func() bool { return func() bool { return time.Since(begun) > d } }
		if _, err := openPatiently(t.Context(), openAfter(5*time.Minute), "", overAfter(6*time.Minute)); err != nil {
			t.Errorf("open after five minutes of faults: %v", err)
		}
		begun = time.Now()
		if _, err := openPatiently(t.Context(), openAfter(time.Minute+openPatience/2), "", overAfter(time.Minute)); err != nil {
			t.Errorf("open soon after the faults: %v", err)
		}
		begun = time.Now()
		if _, err := openPatiently(t.Context(), openAfter(time.Hour), "", overAfter(time.Minute)); !errors.Is(err, silent) {
			t.Errorf("a store that does not come back after the faults: %v", err)
		}
	})
}
