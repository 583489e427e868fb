package pgadvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// transactions has a function for each kind of transaction that LockTx accepts. The function begins
// a transaction, and also returns the function that rolls it back.
func transactions(t *testing.T, url string) map[string]func(level string) (tx any, rollback func()) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	levels := map[string]sql.IsolationLevel{"read committed": sql.LevelReadCommitted, "repeatable read": sql.LevelRepeatableRead}
	return map[string]func(string) (any, func()){
		"pgx": func(level string) (any, func()) {
			tx, err := connect(t, url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
			if err != nil {
				t.Fatal(err)
			}
			return tx, func() { tx.Rollback(context.Background()) }
		},
		"database/sql": func(level string) (any, func()) {
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: levels[level]})
			if err != nil {
				t.Fatal(err)
			}
			return tx, func() { tx.Rollback() }
		},
	}
}

func TestLockTx(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	a, b := mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
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

		r, _ := untilGranted(t, a, "job")
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
	for _, begin := range transactions(t, server.SharedPostgres(t).URL()) {
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
	srv := server.Postgres(t, server.PostgresOptions{})
	s := mustOpen(t, strings.Replace(pgBouncer(t, srv, "session"), "/postgres?", "/alias?", 1))
	conn := connect(t, srv.URL())
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE alias"); err != nil {
		t.Fatal(err)
	}
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
