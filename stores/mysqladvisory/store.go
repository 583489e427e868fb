package mysqladvisory

import (
	"context"
	"database/sql"
	"errors"

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
// Open returns driver.ErrInvalid if the pool allows fewer than 13 connections, if the server is too
// old, or if it belongs to a Galera cluster. Open also returns driver.ErrInvalid if it detects a
// proxy that shares sessions between clients.
func Open(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	cfg := defaults()
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if most := db.Stats().MaxOpenConnections; most > 0 && most < advisory.MaxConns {
		return nil, storekit.Invalidf("the pool has at most %d connections; the store needs up to %d: raise SetMaxOpenConns", most, advisory.MaxConns)
	}
	d := &dialect{dialer{db: db, cfg: &cfg}}
	s := &Store{dialect: d, kit: advisory.New(d, advisory.Config{
		Guarantees: cfg.guarantees(), MaxHolds: cfg.maxHolds, Keep: cfg.keep, SweepNever: cfg.lenient,
	})}
	if !cfg.lazy {
		if err := advisory.Prepare(ctx, s.kit); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.ownsDB = cfg.ownsDB
	return s, nil
}

// Prune removes the rows of names that nobody uses and whose last fence is old. The option [Keep]
// says how old. Prune returns how many rows it removed. If such a name is used again, its next
// fence is still higher than its last one. The store also prunes by itself, in the background.
// Prune needs the right to DELETE. It may take long. If ctx ends, Prune finishes the statement that
// is running. It then returns the error of ctx, and how many rows it has removed.
func (s *Store) Prune(ctx context.Context) (int, error) { return advisory.Prune(ctx, s.kit) }

// Close ends the connections of the store. All holds end with them.
func (s *Store) Close() error {
	err := s.kit.Close()
	if s.ownsDB {
		err = s.dialect.db.Close()
	}
	return err
}

// StoreID implements driver.Places: the server has no place for an id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// Location implements driver.Places: each name has a lock of its own.
func (s *Store) Location(name string) (string, error) { return name, advisory.CheckName(s.kit, name) }

// SamePlace implements driver.Places. It compares the servers if both stores know theirs, and
// the pools otherwise.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	mine, theirs := s.dialect.server.Load(), o.dialect.server.Load()
	if mine != nil && theirs != nil {
		return *mine == *theirs
	}
	return s.dialect.db == o.dialect.db
}
