//go:build !race

// golang-migrate 4.20.1 reads and writes its own isGracefulStop in two goroutines without a mutex.
// So this test runs without the race detector; .ci/steps has a step for it.

package adapters

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/padlocktest"
)

// The lock is lost during a migration, or the caller gives up: golang-migrate stops, however many
// migrations are left.
func TestMigrateStops(t *testing.T) {
	t.Parallel()
	for _, want := range []error{padlock.ErrLost, context.Canceled} {
		l, script := padlocktest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		once := sync.OnceFunc(cancel)
		if want == padlock.ErrLost {
			once = sync.OnceFunc(func() { script.Lose("migrations:shop") })
		}
		d, err := stub.WithInstance(nil, &stub.Config{})
		if err != nil {
			t.Fatal(err)
		}
		open := func() (*migrate.Migrate, error) {
			return migrate.NewWithInstance("endless", endless{}, "stub", losing{d, func() { once() }})
		}
		if err := migrateAll(ctx, l, open); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		// The next call migrates: a Migrate that was stopped would report success at once.
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		once = sync.OnceFunc(cancel)
		if err := migrateAll(ctx, l, open); !errors.Is(err, context.Canceled) {
			t.Errorf("the next call: %v, want %v", err, context.Canceled)
		}
	}
}
