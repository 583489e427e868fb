package adapters

import (
	"context"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/pressly/goose/v3"
)

func migrateUp(ctx context.Context, locker *padlock.Locker, migrations *goose.Provider) error {
	return locker.Do(ctx, "migrations:shop", func(ctx context.Context) error {
		_, err := migrations.Up(ctx)
		return err
	}, padlock.Wait(5*time.Minute))
}
