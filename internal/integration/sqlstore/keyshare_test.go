package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// PostgreSQL forgets a FOR KEY SHARE lock that is taken while another transaction stores a new
// version of the row outside of its page. CheckTx protects a transaction all the same.
func TestKeyShareIsForgotten(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	db, err := sql.Open("pgx", srv.URL())
	noError(t, err)
	p, other := partyOver(t, db, sqlstore.PostgreSQL), partyOver(t, db, sqlstore.PostgreSQL)
	const name = "job"
	lock := p.lapse(t, name, 50*time.Second)
	tx := p.begin(t, sql.LevelReadCommitted)

	// The new value is so long that PostgreSQL needs some tenths of a second to store it.
	const long = "(SELECT json_build_object('label', string_agg(md5(i::text), ''))::text FROM generate_series(1, 500000) AS i)"
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "UPDATE padlock_locks SET holder = "+long+" WHERE name = 'job'")
		done <- err
	}()
	eventuallyLocked(t, db, "padlock_locks")
	noError(t, p.store.CheckTx(t.Context(), tx, lock))
	select {
	case err := <-done:
		t.Fatalf("the UPDATE was over before CheckTx, so this test shows nothing (%v)", err)
	default:
	}
	noError(t, <-done)
	_, err = db.ExecContext(t.Context(), "UPDATE padlock_locks SET holder = '' WHERE name = 'job'")
	noError(t, err)

	noError(t, lock.Release())
	if _, err := other.locker.TryAcquire(t.Context(), name); !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("Acquire after Release, before the end of the transaction: %v", err)
	}
	noError(t, tx.Commit())
	if _, err := other.locker.TryAcquire(t.Context(), name); err != nil {
		t.Errorf("Acquire after the transaction: %v", err)
	}
}

// A name whose row of the last grant is missing, such as one of an older padlock, can be taken.
func TestMissingGrantRow(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", server.Postgres(t, server.PostgresOptions{}).URL())
	noError(t, err)
	p := partyOver(t, db, sqlstore.PostgreSQL)
	for range 2 {
		lock, err := p.locker.TryAcquire(t.Context(), "job")
		noError(t, err)
		noError(t, lock.Release())
		_, err = db.ExecContext(t.Context(), "DELETE FROM padlock_grants")
		noError(t, err)
	}
}

// eventuallyLocked waits until a row of the table is locked.
func eventuallyLocked(t *testing.T, db *sql.DB, table string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		var one int
		err := db.QueryRowContext(ctx, "SELECT 1 FROM "+table+" FOR NO KEY UPDATE SKIP LOCKED").Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return
		}
		noError(t, err)
	}
}
