package adapters

import (
	"context"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

func openLocks(ctx context.Context, url string) (*padlock.Locker, error) {
	store, err := open.Store(ctx, url, open.Schemes(postgres.Scheme())) // of stores/sqlstore/drivers
	if err != nil {
		return nil, err
	}
	return padlock.New(store), nil
}
