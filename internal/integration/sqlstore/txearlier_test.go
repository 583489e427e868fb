package sqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// The time of a lease is that of the statement, not that of the transaction, which began earlier.
func TestTransactionThatBeganEarlier(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("its clock is that of the process")
		}
		a, b := d.party(t), d.party(t)
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			name := level.String()
			begin := func() *sql.Tx {
				tx := a.begin(t, level)
				var now string
				noError(t, tx.QueryRow("SELECT now()").Scan(&now))
				return tx
			}
			lock := b.lapse(t, name, time.Minute)
			noError(t, lock.Release())
			checks, locks := begin(), begin()
			lock = b.lapse(t, name, 150*time.Millisecond)
			eventually(t, "the lease ends", func() bool {
				st, err := b.store.Inspect(t.Context(), name)
				return err == nil && len(st.Holds) == 0
			})
			if err := a.store.CheckTx(t.Context(), checks, lock); err == nil {
				safety.Broken(t, "%s: CheckTx counts the time from the transaction's beginning", name)
			}
			noError(t, checks.Rollback())
			switch err := a.store.LockTx(t.Context(), locks, name); {
			case err == nil:
				_, err = b.locker.TryAcquire(t.Context(), name)
				wantError(t, name+": a try under LockTx", err, driver.ErrHeld)
			case level == sql.LevelReadCommitted: // above that, an old snapshot is refused
				t.Errorf("%s: LockTx after the lease: %v", name, err)
			}
			noError(t, locks.Rollback())
		}
	})
}
