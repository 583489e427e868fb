package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// TestPgxTransactions: a pgx.Tx is protected as a *sql.Tx is, at each isolation level.
func TestPgxTransactions(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	other := d.party(t)
	cfg, err := pgxpool.ParseConfig(d.dsn)
	noError(t, err)
	cfg.MaxConns = 10 // for the open transactions and the store
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	noError(t, err)
	t.Cleanup(pool.Close)
	p := partyOver(t, stdlib.OpenDBFromPool(pool), sqlstore.PostgreSQL)
	ctx := t.Context()
	begin := func(level pgx.TxIsoLevel) pgx.Tx {
		t.Helper()
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
		noError(t, err)
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		return tx
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			name := string(level)
			lock, err := p.locker.TryAcquire(ctx, name)
			noError(t, err)
			checked := begin(level)
			noError(t, p.store.CheckTx(ctx, postgres.Tx(checked), lock))
			noError(t, lock.Release())
			_, err = other.locker.TryAcquire(ctx, name)
			wantError(t, "Acquire while a checked transaction is open", err, padlock.ErrHeld)
			noError(t, p.store.ConfirmTx(ctx, postgres.Tx(checked)))
			noError(t, checked.Commit(ctx))
			wantError(t, "CheckTx after the commit", p.store.CheckTx(ctx, postgres.Tx(checked), lock), sqlstore.ErrTx)

			late := begin(level)
			wantError(t, "CheckTx after Release", p.store.CheckTx(ctx, postgres.Tx(late), lock), driver.ErrLost)
			noError(t, late.Rollback(ctx))

			locked := begin(level)
			noError(t, p.store.LockTx(ctx, postgres.Tx(locked), name))
			wantError(t, "LockTx while another transaction has the name", p.store.LockTx(ctx, postgres.Tx(begin(level)), name), driver.ErrHeld)
			_, err = other.store.Acquire(ctx, driver.Request{Name: name, Token: driver.TokenOf("token"), TTL: time.Minute})
			wantError(t, "Acquire while a transaction has the name", err, driver.ErrHeld)
			noError(t, p.store.ConfirmTx(ctx, postgres.Tx(locked)))
			noError(t, locked.Rollback(ctx))
			if level == pgx.ReadCommitted {
				return
			}
			old := begin(level)
			_, err = old.Exec(ctx, "SELECT count(*) FROM padlock_locks")
			noError(t, err)
			held, err := other.locker.TryAcquire(ctx, name)
			noError(t, err)
			noError(t, held.Release())
			wantError(t, "LockTx on an old snapshot", p.store.LockTx(ctx, postgres.Tx(old), name), sqlstore.ErrTx)
		})
	}
}

// TestWrongTransactions: what is no transaction is refused.
func TestWrongTransactions(t *testing.T) {
	t.Parallel()
	p := databases["sqlite"](t).party(t)
	lock, err := p.locker.TryAcquire(t.Context(), "name")
	noError(t, err)
	for _, tx := range []any{nil, (*sql.Tx)(nil), p.db, pgx.Tx(nil), "tx"} {
		wantError(t, "CheckTx", p.store.CheckTx(t.Context(), tx, lock), driver.ErrInvalid)
		wantError(t, "LockTx", p.store.LockTx(t.Context(), tx, "other"), driver.ErrInvalid)
		wantError(t, "ConfirmTx", p.store.ConfirmTx(t.Context(), tx), driver.ErrInvalid)
	}
}
