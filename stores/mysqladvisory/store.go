package mysqladvisory

import (
	"context"
	"database/sql"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// Store keeps locks as named locks of a MariaDB or MySQL server. It is safe for concurrent use.
type Store struct {
	*kit
	dialect *dialect
	ownsDB  bool
}

// kit has the methods of a store.
type kit = advisory.Store[*conn]

var _ interface {
	driver.Store
	driver.Waiter
	driver.Admin
	driver.FenceRaiser
	driver.Reporter
	driver.Places
} = (*Store)(nil)

// Open returns a store on the server of a pool. ctx limits only the opening. With fences, Open
// creates the table of Schema if it is missing.
//
// The store takes up to 13 connections out of the pool. It closes them after use and never gives
// them back. Close does not close the pool.
//
// Open returns driver.ErrInvalid if the pool allows fewer than 13 connections or has the option
// checkConnLiveness=false of go-sql-driver/mysql, if the server is too old, or if it belongs to a
// Galera cluster. Open also returns driver.ErrInvalid if it detects a
// proxy that shares sessions between clients.
func Open(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	cfg := defaults()
	storekit.Apply(&cfg, opts)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if most := db.Stats().MaxOpenConnections; most > 0 && most < advisory.MaxConns {
		return nil, storekit.Invalidf("the pool has at most %d connections; the store needs up to %d: raise SetMaxOpenConns", most, advisory.MaxConns)
	}
	table, _ := fenceTable(cfg.schema)
	d := &dialect{dialer{db: db, cfg: &cfg}, statements{table}}
	cfg.Guarantees = cfg.guarantees()
	kit, err := advisory.Open(ctx, d, cfg.Config)
	if err != nil {
		return nil, err
	}
	return &Store{kit, d, cfg.ownsDB}, nil
}

// Close ends the connections of the store. All holds end with them.
func (s *Store) Close() error {
	err := s.kit.Close()
	if s.ownsDB {
		err = s.dialect.db.Close()
	}
	return err
}
