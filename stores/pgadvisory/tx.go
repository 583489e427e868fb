package pgadvisory

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/advisory"
)

// LockTx takes the lock on name until tx ends, by commit or rollback. It makes one try and does not
// wait. If the connection ends, the database discards what tx has written. So a process that was
// paused does no harm, and the program need not check fences. The lock itself has no fence.
//
// tx is a pgx.Tx or a *sql.Tx at READ COMMITTED, in the database of the store. At a higher
// isolation level, tx might not see what the previous holder wrote, so LockTx returns
// driver.ErrInvalid. Call LockTx at the start of the transaction. It returns a *driver.HeldError if
// somebody else has the name, and driver.ErrAlreadyHeld if this store has it. A rollback to a
// savepoint ends the lock if LockTx was called after the savepoint.
func (s *Store) LockTx(ctx context.Context, tx any, name string) error {
	if err := advisory.CheckName(s.inner, name); err != nil {
		return err
	}
	end, err := advisory.Begin(ctx, s.inner)
	if err != nil {
		return err
	}
	defer end()
	row, err := rowOf(tx)
	if err != nil {
		return err
	}
	if advisory.Holding(s.inner, name) {
		return fmt.Errorf("lock in a transaction: %w", driver.ErrAlreadyHeld)
	}
	var isolation, database string
	var standby bool
	if err := row(ctx, "SELECT current_setting('transaction_isolation'), current_database(), pg_is_in_recovery()", nil, &isolation, &database, &standby); err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	switch {
	case isolation != "read committed":
		return storekit.Invalidf("tx is %s: it may not see what the last holder wrote; begin it with READ COMMITTED", isolation)
	case database != s.database():
		return storekit.Invalidf("tx is in another database than the store, and advisory locks belong to a database")
	case standby:
		return storekit.Invalidf("tx is on a standby, whose locks the primary does not see")
	}
	var granted bool
	if err := row(ctx, "SELECT pg_try_advisory_xact_lock($1)", []any{s.dialect.cfg.keys.lockNumber(name)}, &granted); err != nil {
		return fmt.Errorf("lock in a transaction: %w", err)
	}
	if !granted {
		return &driver.HeldError{Waiters: -1}
	}
	return nil
}

// database returns the name of the store's database in the server. A store that has not connected
// yet returns the name in its URL, whose default is the name of the user.
func (s *Store) database() string {
	if name, ok := s.dialect.database.Load().(string); ok {
		return name
	}
	if s.dialect.server.Database != "" {
		return s.dialect.server.Database
	}
	return s.dialect.server.User
}

// rowOf returns a function that runs a query in the transaction and reads its only row.
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
	return nil, storekit.Invalidf("tx is a %T; it must be a pgx.Tx or a *sql.Tx", tx)
}
