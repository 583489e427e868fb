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

// onEach runs a test on every engine.
func onEach(t *testing.T, test func(t *testing.T, d database)) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// hold lets a party acquire a name.
func (p *party) hold(t *testing.T, name, token string) {
	t.Helper()
	_, err := p.store.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "elsewhere", PID: 1}})
	noError(t, err)
}

// end ends the lease of a name.
func (d database) end(t *testing.T, name string) {
	t.Helper()
	db, err := d.pool()
	noError(t, err)
	defer db.Close()
	_, err = db.Exec(meetings(d.engine, nil).EndLease, []byte(name))
	noError(t, err)
}

func (p *party) lockTx(t *testing.T, name string) (*sql.Tx, error) {
	t.Helper()
	tx := p.begin(t, sql.LevelDefault)
	return tx, p.store.LockTx(t.Context(), tx, name)
}

// TestLockTxLeavesATrace: a holder whose lease ended before a transaction took the name learns that
// somebody else had the name.
func TestLockTxLeavesATrace(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		a, b := d.party(t), d.party(t)
		for what, after := range map[string]func() error{
			"Extend": func() error {
				_, err := a.store.Extend(t.Context(), "Extend", "token", time.Minute)
				return err
			},
			"Release": func() error {
				out, err := a.store.Release(t.Context(), "Release", "token", 0)
				if out == driver.OutcomeTaken {
					return driver.ErrLost
				}
				return errors.Join(err, errors.New(out.String()))
			},
		} {
			a.hold(t, what, "token")
			d.end(t, what)
			tx, err := b.lockTx(t, what)
			noError(t, err)
			if d.engine != sqlstore.SQLite { // there, others see only what was committed
				_, err := a.store.Extend(t.Context(), what, "token", time.Minute)
				wantError(t, "Extend while the transaction is open", err, driver.ErrLost)
			}
			noError(t, tx.Commit())
			wantError(t, what+" after the transaction", after(), driver.ErrLost)
		}
	})
}

// TestRefusedLockTxLeavesNoTrace: the lease of a holder ends in its own transaction, and LockTx is
// refused. Nobody else has had the name.
func TestRefusedLockTxLeavesNoTrace(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("LockTx waits for the transaction")
		}
		a, b := d.party(t), d.party(t)
		a.hold(t, "name", "token")
		st, err := a.store.Inspect(t.Context(), "name")
		noError(t, err)
		tx := a.begin(t, sql.LevelDefault)
		noError(t, a.store.CheckTx(t.Context(), tx, granted{"name", st.Fence}))
		d.end(t, "name")
		_, err = b.lockTx(t, "name")
		wantError(t, "LockTx", err, driver.ErrHeld)
		noError(t, tx.Commit())
		_, err = a.store.Extend(t.Context(), "name", "token", time.Minute)
		wantError(t, "Extend", err, driver.ErrExpired)
	})
}

// TestRefusedLockTxIsInNobodysWay: the transaction of a refused LockTx stays open. The holder can
// check its lock, and the next one gets it.
func TestRefusedLockTxIsInNobodysWay(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("every write waits for the transaction")
		}
		a, b := d.party(t), d.party(t)
		a.hold(t, "name", "token")
		_, err := b.lockTx(t, "name")
		wantError(t, "LockTx", err, driver.ErrHeld)
		st, err := a.store.Inspect(t.Context(), "name")
		noError(t, err)
		tx := a.begin(t, sql.LevelDefault)
		noError(t, a.store.CheckTx(t.Context(), tx, granted{"name", st.Fence}))
		noError(t, tx.Commit())
		_, err = a.store.Release(t.Context(), "name", "token", 0)
		noError(t, err)
		a.hold(t, "name", "next")
	})
}

// TestLockTxOvertakesADeadWaiter: the only waiter has died. LockTx does not wait until the place of
// the waiter lapses, which takes 40 s.
func TestLockTxOvertakesADeadWaiter(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		a, b := d.party(t), d.party(t)
		a.hold(t, "name", "token")
		ctx, die := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = a.store.Wait(ctx, driver.Request{Name: "name", Token: driver.TokenOf("waiter"), TTL: time.Minute}, true)
		}()
		eventually(t, "the waiter has a place", func() bool {
			st, err := a.store.Inspect(t.Context(), "name")
			return err == nil && st.Waiters == 1
		})
		var place string
		noError(t, a.db.QueryRow("SELECT more FROM padlock_locks").Scan(&place))
		die()
		<-ended
		noError(t, a.setFence("name", "fence, more = '"+place+"'")) // as if the waiter had not given it up
		_, err := a.store.Release(t.Context(), "name", "token", 0)
		noError(t, err)
		eventually(t, "LockTx gets the name", func() bool {
			tx, err := b.lockTx(t, "name")
			if err != nil && !errors.Is(err, driver.ErrHeld) {
				t.Fatal(err)
			}
			noError(t, tx.Rollback())
			return err == nil
		})
		if st, err := a.store.Inspect(t.Context(), "name"); err != nil || st.Waiters != 1 {
			t.Errorf("LockTx got the name when the place of the waiter had lapsed: %+v, %v", st, err)
		}
	})
}

// TestLockTxWithHalfOfTheRows: a process was killed after it had made the first of the two rows of
// a name. LockTx makes the other one.
func TestLockTxWithHalfOfTheRows(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("there is only one row")
		}
		p := d.party(t)
		for _, table := range []string{"padlock_locks", "padlock_grants"} {
			p.hold(t, table, "token")
			_, err := p.store.Release(t.Context(), table, "token", 0)
			noError(t, err)
			_, err = p.db.Exec("DELETE FROM " + table + " WHERE name = '" + table + "'")
			noError(t, err)
			tx, err := p.lockTx(t, table)
			noError(t, err)
			noError(t, tx.Commit())
		}
	})
}
