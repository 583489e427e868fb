package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// ConfirmTx reports whether tx still keeps the names that CheckTx and LockTx have secured in it.
// Call it right before tx.Commit, and roll tx back after any error.
//
// A database may end a transaction without a word to database/sql. The locks of the transaction
// end then, and each later statement commits by itself:
//
//   - MySQL and MariaDB undo the whole transaction after a deadlock (error 1213). A statement such
//     as CREATE TABLE or ALTER TABLE commits it.
//   - SQLite may undo the whole transaction after a full disk or an input or output error.
//   - PostgreSQL ends a transaction only at COMMIT or ROLLBACK.
//
// ConfirmTx returns driver.ErrLost if tx has ended in such a way, and another error if the database
// cannot tell. It does not notice a rollback to a savepoint.
func (s *Store) ConfirmTx(ctx context.Context, tx *sql.Tx) error {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("confirm a transaction: %w", err)
	}
	defer done()
	if err := s.checkOpen(ctx, tx); err != nil {
		return fmt.Errorf("confirm a transaction: %w", err)
	}
	return nil
}

var errTxEnded = fmt.Errorf("%w: the database has ended the transaction, for instance after a deadlock; roll back and begin a new one", driver.ErrLost)

// checkOpen returns errTxEnded if the database has ended the transaction. MySQL and SQLite refuse
// the statement inside a transaction. Outside of one, SQLite begins a transaction that writes
// nothing, and MySQL sets a default.
func (s *Store) checkOpen(ctx context.Context, tx *sql.Tx) error {
	if s.engine == PostgreSQL {
		var open bool
		if err := tx.QueryRowContext(ctx, s.rows.sql.tx.open).Scan(&open); err != nil || !open {
			return cmp.Or(failure(ctx, err, false), errTxEnded)
		}
		return nil
	}
	_, err := tx.ExecContext(ctx, s.rows.sql.tx.open)
	switch {
	case err == nil:
		return errTxEnded
	case dbms.IsInTransaction(err):
		return nil
	}
	return failure(ctx, err, false)
}

// checkTxID returns an error if the transaction is in another database than the store.
func (s *Store) checkTxID(ctx context.Context, tx *sql.Tx) error {
	var id sql.NullString
	if err := tx.QueryRowContext(ctx, s.rows.sql.tx.id).Scan(&id); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return failure(ctx, err, false)
	}
	return s.checkID(ctx, id)
}

// checkID returns an error if id, which a transaction has read, is not the id of the store.
func (s *Store) checkID(ctx context.Context, id sql.NullString) error {
	if last := s.id.Load(); last != nil && *last == id.String {
		return nil
	}
	switch is, err := s.readID(ctx); { // somebody may have made the tables again
	case err != nil:
		return err
	case is != id.String:
		return invalid("tx is in another database than the store")
	}
	return nil
}
