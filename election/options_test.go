package election_test

import (
	"context"
	"errors"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/election"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Options with which several candidates would lead at the same time are an error of Run.
func TestOptionsForSeveralLeaders(t *testing.T) {
	store := memstore.New()
	defer store.Close()
	options := func(o padlock.Option) *election.Election {
		return election.New(padlock.New(store, padlock.KeepStoreOpen()), "scheduler", election.LockOptions(o))
	}
	for name, e := range map[string]*election.Election{
		"Shared": options(padlock.Shared()), "Slots": options(padlock.Slots(2)),
		"Shared for all locks": election.New(padlock.New(store, padlock.KeepStoreOpen(), padlock.Shared()), "scheduler"),
	} {
		err := e.Run(t.Context(), func(context.Context) error { t.Errorf("%s: the candidate leads", name); return nil })
		if !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := padlock.New(store, padlock.KeepStoreOpen())
	if _, err := l.TryAcquire(t.Context(), "scheduler"); err != nil {
		t.Error(err)
	}
}
