package sqlstore

import (
	"context"
	"database/sql"

	"github.com/padlock-go/padlock/storekit"
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
		return sqlTx{tx}, nil
	case Tx:
		return tx, nil
	}
	return nil, storekit.Invalidf("tx is a %T; it must be a *sql.Tx, or postgres.Tx(tx) of a pgx.Tx", tx)
}

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
