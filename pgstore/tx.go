package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
)

// LockTx takes the lock on name until tx ends, whichever way it ends. It makes one try and does
// not wait. If the connection ends, nothing of tx is written, so a process that was paused does
// no harm and nobody has to check a fence. The lock has no fence.
//
// tx is a pgx.Tx or a *sql.Tx, of the same database as the store, at READ COMMITTED: above that,
// it might not see what the holder before wrote, and LockTx returns driver.ErrInvalid. Call it at
// the start of the transaction. A *driver.HeldError says that somebody else has the name, and
// driver.ErrAlreadyHeld that this store does.
func (s *Store) LockTx(ctx context.Context, tx any, name string) error {
	if err := driver.CheckName(name, &s.promises); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.work.Done()
	row, err := rowOf(tx)
	if err != nil {
		return err
	}
	key := s.cfg.keys.lock(name)
	if s.holds.holding(key) {
		return fmt.Errorf("lock in a transaction: %w", driver.ErrAlreadyHeld)
	}
	var isolation, database string
	var standby bool
	if err := row(ctx, "SELECT current_setting('transaction_isolation'), current_database(), pg_is_in_recovery()", nil, &isolation, &database, &standby); err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	switch {
	case isolation != "read committed":
		return invalid("tx is %s: it may not see what the last holder wrote; begin it with READ COMMITTED", isolation)
	case database != s.database():
		return invalid("tx is in another database than the store, and advisory locks belong to a database")
	case standby:
		return invalid("tx is on a standby, whose locks the primary does not see")
	}
	var granted bool
	if err := row(ctx, "SELECT pg_try_advisory_xact_lock($1)", []any{key}, &granted); err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	if !granted {
		return &driver.HeldError{Waiters: -1}
	}
	return nil
}

// database returns the name of the database of the store; that of the user is the default.
func (s *Store) database() string {
	if s.server.Database != "" {
		return s.server.Database
	}
	return s.server.User
}

// rowOf returns a function that reads a row in a transaction.
func rowOf(tx any) (func(ctx context.Context, query string, args []any, dest ...any) error, error) {
	switch tx := tx.(type) {
	case pgx.Tx:
		return func(ctx context.Context, query string, args []any, dest ...any) error {
			return tx.QueryRow(ctx, query, args...).Scan(dest...)
		}, nil
	case *sql.Tx:
		return func(ctx context.Context, query string, args []any, dest ...any) error {
			return tx.QueryRowContext(ctx, query, args...).Scan(dest...)
		}, nil
	}
	return nil, invalid("tx is a %T; it must be a pgx.Tx or a *sql.Tx", tx)
}
