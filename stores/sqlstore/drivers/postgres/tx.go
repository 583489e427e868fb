package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/stores/sqlstore"
)

// Tx makes a transaction of pgx known to the methods CheckTx, LockTx and ConfirmTx of
// sqlstore.Store:
//
//	err := store.LockTx(ctx, postgres.Tx(tx), "invoice:42")
//
// The caller commits or rolls tx back as usual. Like tx, the result is not for concurrent use.
func Tx(tx pgx.Tx) sqlstore.Tx { return pgxTx{tx} }

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), asSQL(err)
}

func (t pgxTx) QueryRow(ctx context.Context, query string, args ...any) sqlstore.Row {
	return pgxRow{t.tx.QueryRow(ctx, query, args...)}
}

type pgxRow struct{ row pgx.Row }

func (r pgxRow) Scan(dest ...any) error { return asSQL(r.row.Scan(dest...)) }

// asSQL adds the error of database/sql to the one of pgx that means the same.
func asSQL(err error) error {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return sql.ErrNoRows
	case errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("%w: %w", sql.ErrTxDone, err)
	}
	return err
}
