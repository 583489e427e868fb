package advisory_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// transactions has a function for each kind of transaction that LockTx accepts. The function begins
// a transaction, and also returns the function that rolls it back.
func transactions(t *testing.T, url string) map[string]func(level string) (tx any, rollback func()) {
	db := postgres.db(t, url)
	levels := map[string]sql.IsolationLevel{"read committed": sql.LevelReadCommitted, "repeatable read": sql.LevelRepeatableRead}
	return map[string]func(string) (any, func()){
		"pgx": func(level string) (any, func()) {
			conn, err := pgx.Connect(t.Context(), url)
			noError(t, err)
			t.Cleanup(func() { conn.Close(context.Background()) })
			tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
			noError(t, err)
			return tx, func() { tx.Rollback(context.Background()) }
		},
		"database/sql": func(level string) (any, func()) {
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: levels[level]})
			noError(t, err)
			return tx, func() { tx.Rollback() }
		},
	}
}

func lockTx(t *testing.T, url string) *pgadvisory.Store {
	return postgres.mustOpen(t, url, "").(*pgadvisory.Store)
}

func TestLockTx(t *testing.T) {
	t.Parallel()
	srv := postgres.shared(t)
	a, b := lockTx(t, srv.URL()), lockTx(t, srv.URL())
	for kind, begin := range transactions(t, srv.URL()) {
		tx, rollback := begin("read committed")
		if err := a.LockTx(t.Context(), tx, "job"); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		refused(t, a, request("job"))
		refused(t, b, request("job"))
		other, end := begin("read committed")
		if err := b.LockTx(t.Context(), other, "job"); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: another transaction: %v", kind, err)
		}
		end()
		rollback()

		r, _ := eventually(t, a, "job")
		tx, rollback = begin("read committed")
		if err := a.LockTx(t.Context(), tx, "job"); !errors.Is(err, driver.ErrAlreadyHeld) {
			t.Errorf("%s: a name that the store holds: %v", kind, err)
		}
		if err := b.LockTx(t.Context(), tx, "job"); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: a name that another process holds: %v", kind, err)
		}
		rollback()
		release(t, a, r)

		tx, rollback = begin("repeatable read")
		if err := a.LockTx(t.Context(), tx, "job"); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "READ COMMITTED") {
			t.Errorf("%s: repeatable read: %v", kind, err)
		}
		rollback()
	}
	if err := a.LockTx(t.Context(), "no transaction", "job"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("LockTx of a string: %v", err)
	}
	for _, begin := range transactions(t, postgres.shared(t).URL()) {
		tx, rollback := begin("read committed")
		if err := a.LockTx(t.Context(), tx, "job"); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a transaction in another database: %v", err)
		}
		rollback()
	}
}

// TestLockTxBehindAPooler: the store connects through a pooler that has another name for the
// database. The transaction goes directly to the server.
func TestLockTxBehindAPooler(t *testing.T) {
	t.Parallel()
	srv := postgres.own(t)
	host, port, _ := strings.Cut(srv.Addr(), ":")
	alias := "[databases]\nalias = host=" + host + " port=" + port + " dbname=postgres user=postgres"
	url := server.PgBouncer(t, srv, "session", alias).URL()
	run(t, postgres.db(t, srv.URL()), "CREATE DATABASE alias")
	s := lockTx(t, strings.Replace(url, "/postgres?", "/alias?", 1))
	for database, want := range map[string]error{"postgres": nil, "alias": driver.ErrInvalid} {
		for kind, begin := range transactions(t, strings.Replace(srv.URL(), "/postgres?", "/"+database+"?", 1)) {
			tx, rollback := begin("read committed")
			if err := s.LockTx(t.Context(), tx, "job"); !errors.Is(err, want) {
				t.Errorf("%s, in the database %s: %v, want %v", kind, database, err, want)
			}
			rollback()
		}
	}
}
