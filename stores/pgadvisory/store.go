package pgadvisory

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Store keeps locks as advisory locks of a PostgreSQL server. It is safe for concurrent use.
type Store struct {
	kit
	inner   *advisory.Store[*conn] // the store of kit
	dialect *dialect
}

// kit has the methods of a store.
type kit = advisory.SharedStore[*conn]

var _ interface {
	driver.Store
	driver.Waiter
	driver.Converter
	driver.Admin
	driver.FenceRaiser
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Open returns a store on the server that config names; pgx.ParseConfig returns such a config. ctx
// limits only the opening. With fences, Open creates the table of Schema if it is missing.
//
// It returns driver.ErrInvalid for a pooler in transaction mode, for a server that is too old, and
// for a configuration that lets an attacker on the network switch encryption off.
func Open(ctx context.Context, config *pgx.ConnConfig, opts ...Option) (*Store, error) {
	cfg := defaults()
	storekit.Apply(&cfg, opts)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := checkTLS(&config.Config); err != nil {
		return nil, err
	}
	d := &dialect{dialer: dialer{server: &config.Copy().Config, cfg: &cfg}, sql: newStatements(&cfg)}
	cfg.Guarantees, cfg.CheckName = cfg.guarantees(), cfg.keys.check
	inner, err := advisory.Open(ctx, d, cfg.Config)
	if err != nil {
		return nil, err
	}
	return &Store{advisory.Shared(inner), inner, d}, nil
}
