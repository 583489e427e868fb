package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/sqlstore"
)

// blockRow locks the row of a name in the table of locks against writers, until the returned
// transaction ends.
func (p *party) blockRow(t *testing.T, name string) *sql.Tx {
	t.Helper()
	query := "SELECT version FROM padlock_locks WHERE name = ? FOR UPDATE"
	if p.store.Guarantees().Store == "postgresql" {
		query = "SELECT version FROM padlock_locks WHERE name = $1 FOR UPDATE"
	}
	tx := p.begin(t, sql.LevelDefault)
	var version int64
	noError(t, tx.QueryRow(query, []byte(name)).Scan(&version))
	return tx
}

// TestCancelledStatement: a statement waits for a row, its caller gives up, and the server goes on
// with it, as MySQL does. Once the caller has released the token, the name is free and stays so.
func TestCancelledStatement(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		if name == "sqlite" {
			continue // nothing goes on without its caller
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a, b := d.party(t), d.party(t)
			for what, r := range map[string]driver.Request{
				"exclusive": {}, "shared": {Shared: true},
			} {
				t.Run(what, func(t *testing.T) { cancelled(t, a, b, what, r) })
			}
		})
	}
}

func cancelled(t *testing.T, a, b *party, name string, r driver.Request) {
	a.take(t, name, driver.Request{})
	a.giveBack(t, name, 0)
	tx := b.blockRow(t, name)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r.Name, r.Token, r.TTL = name, "given up", time.Minute
	if g, err := a.store.Acquire(ctx, r); err == nil {
		t.Fatalf("fence %d was granted while the row was locked", g.Fence)
	}
	released := make(chan error, 1)
	go func() {
		_, err := a.store.Release(context.Background(), name, "given up", 0)
		released <- err
	}()
	<-time.After(100 * time.Millisecond) // the order in which both wait for the row does not matter
	noError(t, tx.Commit())
	noError(t, <-released)
	for range 5 {
		st, err := a.store.Inspect(t.Context(), name)
		noError(t, err)
		if len(st.Holds) > 0 {
			t.Fatalf("the name is held after the release: %+v", st.Holds)
		}
		<-time.After(50 * time.Millisecond)
	}
	if _, err := a.store.Acquire(t.Context(), r); err == nil {
		t.Error("a delayed request with the token was granted")
	}
}

// TestParked: a contender has read that the lease is over, and is stopped before it writes, while
// the holder renews. It does not get the name.
func TestParked(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		if name == "sqlite" {
			continue // it reads and writes in one statement, or with compare and swap as all do
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a, b := d.party(t), d.party(t)
			parked(t, a, b)
		})
	}
}

func parked(t *testing.T, a, b *party) {
	const name = "parked"
	g := a.take(t, name, driver.Request{})
	// The holder's renewal is under way: it has written the row and not yet committed.
	tx := a.blockRow(t, name)
	shift := "UPDATE padlock_locks SET version = version + 1, until = until - 3600000000 WHERE name = ?"
	back := "UPDATE padlock_locks SET version = version + 1, until = until + 3600000000 WHERE name = ?"
	if b.store.Guarantees().Store == "postgresql" {
		shift, back = "UPDATE padlock_locks SET version = version + 1, until = until - 3600000000 WHERE name = $1", "UPDATE padlock_locks SET version = version + 1, until = until + 3600000000 WHERE name = $1"
	}
	noError(t, tx.Rollback())
	_, err := a.db.Exec(shift, []byte(name)) // the lease is over
	noError(t, err)
	tx = a.begin(t, sql.LevelDefault)
	_, err = tx.Exec(back, []byte(name)) // and is renewed, in a transaction that is not over
	noError(t, err)
	var got error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, got = b.store.Acquire(context.Background(), driver.Request{Name: name, Token: "contender", TTL: time.Minute})
	}()
	<-time.After(200 * time.Millisecond)
	noError(t, tx.Commit())
	<-done
	wantError(t, "the contender", got, driver.ErrHeld)
	st, err := a.store.Inspect(t.Context(), name)
	noError(t, err)
	if len(st.Holds) != 1 || st.Fence != g.Fence {
		t.Errorf("after the renewal: %+v, want the hold with fence %d", st, g.Fence)
	}
}

// TestSerializable: the suite passes where every transaction is serializable by default.
func TestSerializable(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		srv := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "default_transaction_isolation=serializable"}})
		d := database{"pgx", srv.URL(), sqlstore.PostgreSQL}
		drivertest.Run(t, drivertest.Harness{Open: d.open, Slow: true, Parallel: 8})
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		d := database{"mysql", server.MariaDB(t).URL() + "?tx_isolation=%27SERIALIZABLE%27", sqlstore.MySQL}
		drivertest.Run(t, drivertest.Harness{Open: d.open, Slow: true, Parallel: 8})
	})
}
