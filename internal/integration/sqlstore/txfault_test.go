package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A transaction of the caller's that cannot be used is a mistake of the caller's. The error does
// not say that the database is out of reach, and the next transaction works.
func TestUnusableTransactions(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t).party(t)
			ctx := t.Context()
			lock := p.lapse(t, "held", time.Minute)
			begin := func(opts *sql.TxOptions) *sql.Tx {
				t.Helper()
				tx, err := p.db.BeginTx(ctx, opts)
				noError(t, err)
				t.Cleanup(func() { tx.Rollback() })
				return tx
			}
			refused := func(what string, makeTx func() *sql.Tx) {
				t.Helper()
				for call, err := range map[string]error{
					"CheckTx": p.store.CheckTx(ctx, makeTx(), lock),
					"LockTx":  p.store.LockTx(ctx, makeTx(), "free"),
				} {
					if err == nil && call == "CheckTx" && name == "mariadb" && what == "is read-only" {
						continue // MariaDB locks rows in such a transaction
					}
					if !errors.Is(err, sqlstore.ErrTx) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
						t.Errorf("%s in a transaction that %s: %v", call, what, err)
					}
				}
			}
			refused("has ended", func() *sql.Tx {
				tx := begin(nil)
				noError(t, tx.Commit())
				return tx
			})
			if name != "sqlite" { // its drivers begin no transaction that is read-only
				refused("is read-only", func() *sql.Tx {
					return begin(&sql.TxOptions{ReadOnly: true})
				})
			}
			if name == "postgres" {
				refused("has failed", func() *sql.Tx {
					tx := begin(nil)
					if _, err := tx.ExecContext(context.Background(), "SELECT 1/0"); err == nil {
						t.Error("1/0 has a result")
					}
					return tx
				})
			}
			tx := begin(nil)
			noError(t, p.store.CheckTx(ctx, tx, lock))
			noError(t, tx.Rollback())
		})
	}
}
