package sqlstore

import (
	"context"
	"database/sql"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/stores/sqlstore/internal/dbms"
)

// Tx is a transaction of a library other than database/sql, for [Store.CheckTx], [Store.LockTx] and
// [Store.ConfirmTx]. The function Tx of package drivers/postgres makes one of a pgx.Tx.
type Tx interface {
	// Exec runs a statement and returns the number of rows that it changed.
	Exec(ctx context.Context, query string, args ...any) (rows int64, err error)
	// QueryRow runs a query. The error of a query without a row is sql.ErrNoRows.
	QueryRow(ctx context.Context, query string, args ...any) Row
}

// Row is a row of a result, such as *sql.Row.
type Row interface {
	// Scan copies the columns to dest, as the method Scan of sql.Row does.
	Scan(dest ...any) error
}

// txOf returns the transaction that a caller has passed.
func txOf(tx any) (Tx, error) {
	switch tx := tx.(type) {
	case *sql.Tx:
		if tx == nil {
			return nil, storekit.Invalidf("tx is nil")
		}
		return callersTx{sqlTx{tx}}, nil
	case Tx:
		return callersTx{tx}, nil
	}
	return nil, storekit.Invalidf("tx is a %T; it must be a *sql.Tx, or postgres.Tx(tx) of a pgx.Tx", tx)
}

// ErrTx is in the error of CheckTx, LockTx and ConfirmTx if the caller's transaction cannot be used:
// it has ended, an earlier statement in it has failed, it is read-only, or it sees data from before
// the lock was free. The database did answer. Roll back, and begin a new transaction that may write.
var ErrTx = dbms.ErrTx

// callersTx is a transaction of the caller. Its errors tell Failure so.
type callersTx struct{ tx Tx }

func (t callersTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	n, err := t.tx.Exec(ctx, query, args...)
	return n, dbms.InTx(err)
}

func (t callersTx) QueryRow(ctx context.Context, query string, args ...any) Row {
	return callersRow{t.tx.QueryRow(ctx, query, args...)}
}

type callersRow struct{ row Row }

func (r callersRow) Scan(dest ...any) error { return dbms.InTx(r.row.Scan(dest...)) }

// sqlTx is a transaction of database/sql.
type sqlTx struct{ *sql.Tx }

func (t sqlTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := t.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t sqlTx) QueryRow(ctx context.Context, query string, args ...any) Row {
	return t.QueryRowContext(ctx, query, args...)
}
