package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// PostgreSQL forgets a FOR KEY SHARE lock that is taken while another transaction stores a new
// version of the row outside of its page. CheckTx protects a transaction all the same.
func TestKeyShareIsForgotten(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	db, err := sql.Open("pgx", srv.URL())
	noError(t, err)
	p, other := partyOver(t, db, sqlstore.PostgreSQL), partyOver(t, db, sqlstore.PostgreSQL)
	const name = "job"
	lock := p.lapse(t, name, 10*time.Minute)
	var tx *sql.Tx
	for rows := 500_000; ; rows *= 2 {
		tx = p.begin(t, sql.LevelReadCommitted)
		meanwhile := checkDuringUpdate(t, db, rows, func() { noError(t, p.store.CheckTx(t.Context(), tx, lock)) })
		_, err = db.ExecContext(t.Context(), "UPDATE padlock_locks SET holder = '' WHERE name = 'job'")
		noError(t, err)
		if meanwhile {
			break
		}
		if rows > 4_000_000 {
			t.Fatal("the UPDATE was over before CheckTx, so this test shows nothing")
		}
		noError(t, tx.Rollback())
	}

	noError(t, lock.Release())
	if _, err := other.locker.TryAcquire(t.Context(), name); !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("Acquire after Release, before the end of the transaction: %v", err)
	}
	noError(t, tx.Commit())
	if _, err := other.locker.TryAcquire(t.Context(), name); err != nil {
		t.Errorf("Acquire after the transaction: %v", err)
	}
}

// checkDuringUpdate calls check while a new value of a row is stored. The value has the given
// number of parts, and is so long that PostgreSQL needs some tenths of a second to store it. It
// returns false if the machine stood still until the value was stored.
func checkDuringUpdate(t *testing.T, db *sql.DB, parts int, check func()) bool {
	t.Helper()
	const long = "(SELECT json_build_object('label', string_agg(md5(i::text), ''))::text FROM generate_series(1, %d) AS i)"
	done := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "UPDATE padlock_locks SET holder = "+fmt.Sprintf(long, parts)+" WHERE name = 'job'")
		done <- err
	}()
	for !isLocked(t, db, "padlock_locks") {
		if len(done) > 0 {
			noError(t, <-done)
			return false
		}
	}
	check()
	meanwhile := len(done) == 0
	noError(t, <-done)
	return meanwhile
}

// A name whose row of the last grant is missing, such as one of an older padlock, can be taken.
func TestMissingGrantRow(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	db, err := sql.Open("pgx", server.SharedPostgres(t).URL())
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

// isLocked reports whether the only row of a table is locked.
func isLocked(t *testing.T, db *sql.DB, table string) bool {
	t.Helper()
	var one int
	err := db.QueryRowContext(t.Context(), "SELECT 1 FROM "+table+" FOR NO KEY UPDATE SKIP LOCKED").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true
	}
	noError(t, err)
	return false
}
