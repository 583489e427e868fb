package postgres

import (
	"context"

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
	return tag.RowsAffected(), err
}

func (t pgxTx) QueryRow(ctx context.Context, query string, args ...any) sqlstore.Row {
	return t.tx.QueryRow(ctx, query, args...) // its error for no row is sql.ErrNoRows too
}
