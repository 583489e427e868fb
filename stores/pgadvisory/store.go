package pgadvisory

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
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
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := checkTLS(&config.Config); err != nil {
		return nil, err
	}
	d := &dialect{dialer: dialer{server: &config.Copy().Config, cfg: &cfg}, sql: newStatements(&cfg)}
	d.second = d.openConn
	inner := advisory.New(d, advisory.Config{
		Guarantees: cfg.guarantees(), MaxHolds: cfg.maxHolds, Keep: cfg.keep, SweepNever: cfg.lenient, CheckName: cfg.keys.check,
	})
	s := &Store{kit: advisory.Shared(inner), inner: inner, dialect: d}
	if cfg.lazy {
		return s, nil
	}
	if err := advisory.Prepare(ctx, inner); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Prune removes the rows of names that nobody uses and whose last fence is old. The option [Keep]
// says how old. Prune returns how many rows it removed. If such a name is used again, its next
// fence is still higher than its last one. The store also prunes by itself, in the background.
// Prune needs the right to DELETE. It may take long. If ctx ends, Prune finishes the statement that
// is running. It then returns the error of ctx, and how many rows it has removed.
func (s *Store) Prune(ctx context.Context) (int, error) { return advisory.Prune(ctx, s.inner) }

// Location implements driver.Places. It returns the number that the server locks: 64 bits of a
// hash, or 32 bits with SymfonyLayout. With NumberLayout it is the name.
func (s *Store) Location(name string) (string, error) {
	if err := advisory.CheckName(s.inner, name); err != nil {
		return "", err
	}
	return s.dialect.Key(name), nil
}

// StoreID implements driver.Places: the server has no place for an id.
func (s *Store) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }

// SamePlace implements driver.Places. It compares the identifiers of the two servers if both
// are known, and otherwise their addresses.
func (s *Store) SamePlace(other driver.Store) bool {
	o, ok := other.(*Store)
	if !ok {
		return false
	}
	a, b := s.dialect, o.dialect
	mine, theirs := a.system.Load(), b.system.Load()
	if mine != nil && theirs != nil {
		return mine == theirs
	}
	return a.server.Host == b.server.Host && a.server.Port == b.server.Port
}
