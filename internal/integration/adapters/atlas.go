package adapters

import (
	"context"
	"errors"
	"time"

	"ariga.io/atlas/sql/migrate"
	"github.com/padlock-go/padlock"
)

func applyAll(ctx context.Context, locker *padlock.Locker, migrations *migrate.Executor) error {
	return locker.Do(ctx, "migrations:shop", func(ctx context.Context) error {
		err := migrations.ExecuteN(ctx, 0)
		if errors.Is(err, migrate.ErrNoPendingFiles) {
			return nil
		}
		return err
	}, padlock.Wait(5*time.Minute))
}
