package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// TestPgxPool: the lines of docs/stores/sql.md for a program with a pool of pgx. The statements of
// pgx go into the transaction that holds the lock.
func TestPgxPool(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	other := d.party(t)
	pool, err := pgxpool.New(t.Context(), d.dsn)
	noError(t, err)
	defer pool.Close()
	p := partyOver(t, stdlib.OpenDBFromPool(pool), sqlstore.PostgreSQL)
	_, err = pool.Exec(t.Context(), "CREATE TABLE invoices (id int)")
	noError(t, err)

	tx, err := pool.Begin(t.Context())
	noError(t, err)
	defer tx.Rollback(context.Background())
	noError(t, p.store.LockTx(t.Context(), postgres.Tx(tx), "name"))
	_, err = tx.CopyFrom(t.Context(), pgx.Identifier{"invoices"}, []string{"id"}, pgx.CopyFromRows([][]any{{42}}))
	noError(t, err)
	_, err = other.store.Acquire(t.Context(), driver.Request{Name: "name", Token: driver.TokenOf("token"), TTL: time.Minute})
	wantError(t, "Acquire meanwhile", err, driver.ErrHeld)
	noError(t, p.store.ConfirmTx(t.Context(), postgres.Tx(tx)))
	noError(t, tx.Rollback(t.Context()))
	var n int
	noError(t, other.db.QueryRow("SELECT count(*) FROM invoices").Scan(&n))
	if n != 0 {
		t.Error("pgx has written outside of the transaction")
	}
}
