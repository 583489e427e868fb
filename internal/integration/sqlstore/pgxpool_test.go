package sqlstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
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

	conn, err := p.db.Conn(t.Context())
	noError(t, err)
	defer conn.Close()
	tx, err := conn.BeginTx(t.Context(), nil)
	noError(t, err)
	defer tx.Rollback()
	noError(t, p.store.LockTx(t.Context(), tx, "name"))
	noError(t, conn.Raw(func(c any) error {
		pg := c.(*stdlib.Conn).Conn()
		_, err := pg.CopyFrom(t.Context(), pgx.Identifier{"invoices"}, []string{"id"}, pgx.CopyFromRows([][]any{{42}}))
		return err
	}))
	_, err = other.store.Acquire(t.Context(), driver.Request{Name: "name", Token: "token", TTL: time.Minute})
	wantError(t, "Acquire meanwhile", err, driver.ErrHeld)
	noError(t, p.store.ConfirmTx(t.Context(), tx))
	noError(t, tx.Rollback())
	var n int
	noError(t, other.db.QueryRow("SELECT count(*) FROM invoices").Scan(&n))
	if n != 0 {
		t.Error("pgx has written outside of the transaction")
	}
}
