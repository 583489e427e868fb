package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/padlock-go/padlock"
)

// migrateAll calls open for a new Migrate each time; its database is the caller's to close.
func migrateAll(ctx context.Context, locker *padlock.Locker, open func() (*migrate.Migrate, error)) error {
	return locker.Do(ctx, "migrations:shop", func(ctx context.Context) error {
		m, err := open() // a new one: after a stop, Up of the same one does nothing and returns nil
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { m.GracefulStop <- true })()
		if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return context.Cause(ctx) // Up returns nil if it was stopped
	}, padlock.Wait(5*time.Minute))
}
