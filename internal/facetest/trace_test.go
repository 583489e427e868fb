package facetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A caller that finds the lock held gets the trace of the holder, made from the context of its
// acquire, with the values that observers added.
func TestTraceHolders(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	defer store.Close()
	type key struct{}
	l := padlock.New(store, padlock.KeepStoreOpen(), padlock.TraceHolders(func(ctx context.Context) string {
		text, _ := ctx.Value(key{}).(string)
		return text
	}))
	other := padlock.New(store, padlock.KeepStoreOpen(), padlock.TraceHolders(nil))
	for given, want := range map[string]string{"": "", "00-a-b-01": "00-a-b-01", strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): ""} {
		lock, err := l.Acquire(context.WithValue(t.Context(), key{}, given), "name")
		if err != nil {
			t.Fatal(err)
		}
		var held *padlock.HeldError
		if _, err := other.TryAcquire(t.Context(), "name"); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Trace != want {
			t.Errorf("trace %q is seen in %v as %+v", given, err, held)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
