package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// ConfirmTx reports whether tx still keeps the names that CheckTx and LockTx have secured in it.
// Call it right before tx.Commit, and roll tx back after any error. tx is a *sql.Tx or a [Tx]; see
// CheckTx.
//
// A database may end a transaction without a word to database/sql, and its locks with it. Later
// statements commit by themselves, or in a transaction without the locks:
//
//   - MySQL and MariaDB undo the whole transaction after a deadlock (error 1213). A statement such
//     as CREATE TABLE, ALTER TABLE or START TRANSACTION commits it, in a procedure too.
//   - SQLite may undo the whole transaction after a full disk or an input or output error.
//   - PostgreSQL ends a transaction only at COMMIT or ROLLBACK.
//
// ConfirmTx returns driver.ErrLost then, or if no name was secured, and another error if the
// database cannot tell. After a rollback to a savepoint from before a call it returns
// driver.ErrLost, too, unless CheckTx was called again for the same lock.
//
// On MySQL and SQLite, ConfirmTx removes the savepoints that were set after the first call. Of a
// [Tx] that is no *sql.Tx padlock remembers nothing, so ConfirmTx speaks only for the calls in the
// present transaction.
func (s *Store) ConfirmTx(ctx context.Context, tx any) error {
	ctx, done, err := dbms.Begin(ctx, &s.calls, s.check)
	if err != nil {
		return fmt.Errorf("confirm a transaction: %w", err)
	}
	defer done()
	own, err := txOf(tx)
	if err != nil {
		return err
	}
	if err := s.confirm(ctx, own, marksIn(tx)); err != nil {
		return fmt.Errorf("confirm a transaction: %w", err)
	}
	return nil
}

var errTxEnded = fmt.Errorf("%w: the database has ended it, for instance after a deadlock", ErrTx)

// checkOpen returns an error if no transaction is open after a row was locked: then the lock has
// ended with its statement. It is for MySQL and SQLite, which refuse the statement of checkOpen
// inside a transaction. Outside of one, SQLite begins a transaction that writes nothing, and MySQL
// sets a default for the next one.
func (s *Store) checkOpen(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, s.rows.sql.tx.open)
	if dbms.IsInTransaction(err) {
		return nil
	}
	if err == nil {
		return errTxEnded
	}
	return dbms.Failure(ctx, err, false)
}

// checkTxID returns an error if the transaction is in another database than the store.
func (s *Store) checkTxID(ctx context.Context, tx Tx) error {
	var id sql.NullString
	if err := tx.QueryRow(ctx, s.rows.sql.tx.id).Scan(&id); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return dbms.Failure(ctx, err, false)
	}
	return s.checkID(ctx, id)
}

// checkID returns an error if id, which a transaction has read, is not that of the store's tables.
func (s *Store) checkID(ctx context.Context, id sql.NullString) error {
	if last := s.home.Load(); last != nil && *last == id.String {
		return nil
	}
	is, err := s.readHome(ctx) // somebody may have made the tables again
	if err == nil && is != id.String {
		err = storekit.Invalidf("tx is in another database than the store")
	}
	return err
}
