package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The back-off of a function that fails at once grows, however long the candidate waits for the
// lead in between.
func TestBackOffIgnoresTheWaitForTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{store: memstore.New()}
		other := padlock.New(w.store, padlock.KeepStoreOpen())
		defer other.Close(t.Context())
		lock, err := other.Acquire(t.Context(), "scheduler")
		if err != nil {
			t.Fatal(err)
		}
		a := w.joinWith(t, "a", func(context.Context) error { return errors.New("it fails at once") })
		for range 5 {
			wait(time.Minute)
			if err := lock.Release(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if lock, err = other.Acquire(t.Context(), "scheduler"); err != nil {
				t.Fatal(err)
			}
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		wait(5 * time.Second) // the fifth pause is at least 8 s long
		if n := w.terms.Load(); n != 5 {
			t.Errorf("there were %d terms, want 5", n)
		}
		a.leave(t)
	})
}
