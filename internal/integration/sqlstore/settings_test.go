package sqlstore_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// TestAutocommit is about a server on which connections do not commit by themselves. A grant would
// be undone when the connection ends. So a pool with that setting is refused, and a URL changes the
// setting.
func TestAutocommit(t *testing.T) {
	t.Parallel()
	srv := server.MariaDB(t)
	run(t, "mysql", srv.URL(), "SET GLOBAL autocommit = 0")
	db, err := sql.Open("mysql", srv.URL())
	noError(t, err)
	defer db.Close()
	_, err = sqlstore.Open(t.Context(), db, sqlstore.MySQL)
	wantText(t, "Open", err, driver.ErrUnavailable, "autocommit=1")

	rawURL := "mysql://root@" + srv.Addr() + "/mysql"
	s, err := fromURL(t.Context(), rawURL, mysql.Opener())
	noError(t, err)
	noError(t, take(t, s, "name", "token"))
	noError(t, s.Close()) // ends the connections
	s, err = fromURL(t.Context(), rawURL, mysql.Opener())
	noError(t, err)
	defer s.Close()
	wantError(t, "another token", take(t, s, "name", "other token"), driver.ErrHeld)
}

// TestCharacterSets: a holder can have any text, even if the database or the connection has a
// smaller character set. The holder and the waiters see it as it was written.
func TestCharacterSets(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		srv := server.Postgres(t, server.PostgresOptions{})
		for _, set := range []string{"latin1", "sql_ascii", "utf8"} {
			run(t, "pgx", srv.URL(), "CREATE DATABASE in_"+set+" ENCODING '"+set+"' TEMPLATE template0")
			open := func() *sqlstore.Store {
				db, l, err := postgres.Open(strings.Replace(srv.URL(), "/postgres?", "/in_"+set+"?", 1))
				noError(t, err)
				s, err := sqlstore.Open(t.Context(), db, sqlstore.PostgreSQL, sqlstore.Notify(l))
				noError(t, err)
				t.Cleanup(func() { s.Close(); db.Close() })
				return s
			}
			t.Run(set, func(t *testing.T) { anyText(t, open(), open()) })
		}
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		srv := server.MariaDB(t)
		for _, set := range []string{"ascii", "utf8", "utf8mb4"} {
			a := database{"mysql", srv.URL() + "?charset=" + set, sqlstore.MySQL}.party(t)
			b := database{"mysql", srv.URL(), sqlstore.MySQL}.party(t)
			t.Run(set, func(t *testing.T) { anyText(t, a.store, b.store) })
		}
	})
}

func anyText(t *testing.T, a, b *sqlstore.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, label := range []string{"Zoë", "😀", "a\x00b", `"\u00eb`} {
		r := driver.Request{Name: "job of " + label, Token: driver.TokenOf("first"), TTL: time.Minute, Holder: driver.Holder{Label: label, Host: "höst"}}
		_, err := a.Acquire(ctx, r)
		noError(t, err)
		wants := r
		wants.Token = driver.TokenOf("second")
		got := make(chan error, 1)
		go func() {
			_, err := a.Wait(ctx, wants, true)
			if err == nil { // a reservation lapses soon
				_, err = a.Acquire(ctx, wants)
			}
			got <- err
		}()
		eventually(t, "somebody waits", func() bool {
			st, err := b.Inspect(ctx, r.Name)
			noError(t, err)
			if len(st.Holds) != 1 || st.Holds[0].Label != label || st.Holds[0].Host != "höst" {
				t.Fatalf("the holder %q is shown as %+v", label, st.Holds)
			}
			return st.Waiters == 1
		})
		_, err = a.Release(ctx, r.Name, "first", 0)
		noError(t, err)
		noError(t, <-got)
		st, err := b.Inspect(ctx, r.Name)
		noError(t, err)
		if len(st.Holds) != 1 || st.Holds[0].Label != label || st.Holds[0].Host != "höst" {
			t.Errorf("the waiter %q is shown as %+v", label, st.Holds)
		}
		_, err = a.Release(ctx, r.Name, "second", 0)
		noError(t, err)
	}
}

// TestTableEngine: rows of a table outside InnoDB cannot be locked by a transaction, so CheckTx
// would protect nothing. The store refuses such tables, and its status names them.
func TestTableEngine(t *testing.T) {
	t.Parallel()
	d := databases["mariadb"](t)
	engine := func() string {
		db, err := d.pool()
		noError(t, err)
		defer db.Close()
		s, err := sqlstore.Open(t.Context(), db, d.engine, sqlstore.Lazy())
		noError(t, err)
		defer s.Close()
		found, err := s.Status(t.Context())
		noError(t, err)
		for _, f := range found {
			if f.Name == "engine" {
				return f.Value + ": " + f.Advice
			}
		}
		return "not there"
	}
	if got := engine(); got != "unknown: " {
		t.Errorf("without tables, the engine is %s", got)
	}
	p := d.party(t)
	if got := engine(); got != "InnoDB: " {
		t.Errorf("the engine is %s", got)
	}
	run(t, d.driver, d.dsn, "ALTER TABLE padlock_grants ENGINE=Aria")
	if got := engine(); !strings.HasPrefix(got, "Aria,InnoDB: ") || !strings.Contains(got, "ENGINE=InnoDB") {
		t.Errorf("with a table in Aria, the engine is %s", got)
	}
	_, err := sqlstore.Open(t.Context(), p.db, d.engine)
	wantText(t, "Open", err, driver.ErrUnavailable, "ENGINE=InnoDB")
}

// TestTransactionSettings: Status, and so padlock doctor, shows when PostgreSQL ends the
// transaction of a machine that has vanished.
func TestTransactionSettings(t *testing.T) {
	t.Parallel()
	rawURL := server.SharedPostgres(t).URL()
	for timeout, want := range map[string]string{"0": "never", "60s": "1min"} {
		run(t, "pgx", rawURL, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''"+timeout+"''', current_database()); END $$")
		s, err := fromURL(t.Context(), rawURL, postgres.Opener())
		noError(t, err)
		defer s.Close()
		list, err := s.(driver.Reporter).Status(t.Context())
		noError(t, err)
		found := map[string]string{}
		for _, f := range list {
			found[f.Name] = f.Value
		}
		if got := found["idle_in_transaction_session_timeout"]; got != want {
			t.Errorf("idle_in_transaction_session_timeout is %q, want %q", got, want)
		}
	}
}
