package sqlstore_test

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
)

// refusedOnce takes a lock on stale sessions. The first try is refused and says why. The next one
// gets a new session.
func refusedOnce(t *testing.T, s driver.Store) {
	t.Helper()
	err := take(t, s, "first", "token-1")
	if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "the next call connects anew") {
		t.Errorf("the call on a stale session: %v", err)
	}
	for _, name := range []string{"second", "third", "fourth"} {
		if err := take(t, s, name, "token-2"); err != nil {
			t.Errorf("a call after the refusal: %v", err)
		}
	}
}

// TestReadOnlyPeriod: a provider sets default_transaction_read_only, as for a full disk, and takes
// the setting back. PostgreSQL's sessions that began meanwhile stay read-only.
func TestReadOnlyPeriod(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(t *testing.T, rawURL string) (db *sql.DB, begin func()){
		"padlock's driver": func(t *testing.T, rawURL string) (*sql.DB, func()) {
			db, _, err := postgres.Open(rawURL)
			noError(t, err)
			return db, func() { db.SetMaxIdleConns(-1); server.OpenSessions(t, db, 5) }
		},
		"the caller's pool": func(t *testing.T, rawURL string) (*sql.DB, func()) {
			db, err := sql.Open("pgx", rawURL)
			noError(t, err)
			return db, func() { db.SetMaxIdleConns(-1); server.OpenSessions(t, db, 5) }
		},
		"pgxpool": func(t *testing.T, rawURL string) (*sql.DB, func()) { // each of its sessions ends at its own refusal
			pool, err := pgxpool.New(t.Context(), rawURL)
			noError(t, err)
			t.Cleanup(pool.Close)
			return stdlib.OpenDBFromPool(pool), func() { pool.Reset(); noError(t, pool.Ping(t.Context())) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := server.SharedPostgres(t)
			u, err := url.Parse(srv.URL())
			noError(t, err)
			admin, err := sql.Open("pgx", strings.Replace(srv.URL(), u.Path, "/postgres", 1))
			noError(t, err)
			defer admin.Close()
			db, begin := connect(t, srv.URL())
			defer db.Close()
			s, err := sqlstore.Open(t.Context(), db, sqlstore.PostgreSQL)
			noError(t, err)
			defer s.Close()
			unchecked, err := sqlstore.Open(t.Context(), db, sqlstore.PostgreSQL, sqlstore.Lazy())
			noError(t, err)
			defer unchecked.Close()
			symfonyStore, err := symfony.Open(t.Context(), db, sqlstore.PostgreSQL, symfony.Symfony)
			noError(t, err)
			defer symfonyStore.Close()
			readOnlyPeriod := func() {
				alter := "ALTER DATABASE " + strings.TrimPrefix(u.Path, "/")
				server.Execute(t, admin, alter+" SET default_transaction_read_only = on")
				begin()
				server.Execute(t, admin, alter+" RESET default_transaction_read_only")
			}
			readOnlyPeriod()
			refusedOnce(t, s)
			readOnlyPeriod()
			refusedOnce(t, symfonyStore)
			readOnlyPeriod()
			wantError(t, "the first call of a store", take(t, unchecked, "fifth", "token-3"), driver.ErrUnavailable)
			noError(t, take(t, unchecked, "fifth", "token-3"))
		})
	}
}

// TestSwapBehindOneAddress: a server becomes read-only, and new connections lead to another server.
// The old connections stay open.
func TestSwapBehindOneAddress(t *testing.T) {
	t.Parallel()
	a, b := server.MariaDB(t), server.MariaDB(t)
	for _, srv := range []*server.Server{a, b} {
		run(t, "mysql", srv.URL(), "CREATE DATABASE d", "CREATE USER app IDENTIFIED BY 'pw'", "GRANT ALL ON d.* TO app")
	}
	front := server.NewProxy(t, a.Addr())
	plain, err := sql.Open("mysql", "app:pw@tcp("+front.Addr()+")/d")
	noError(t, err)
	own, _, err := mysql.Open("mysql://app:pw@" + front.Addr() + "/d")
	noError(t, err)
	stores := map[string]driver.Store{}
	for name, db := range map[string]*sql.DB{"the caller's pool": plain, "padlock's driver": own} {
		defer db.Close()
		s, err := sqlstore.Open(t.Context(), db, sqlstore.MySQL)
		noError(t, err)
		defer s.Close()
		server.OpenSessions(t, db, 5)
		stores[name] = s
	}
	run(t, "mysql", a.URL(), "SET GLOBAL read_only = 1")
	front.Lead(b.Addr())
	for name, s := range stores {
		t.Run(name, func(t *testing.T) { refusedOnce(t, s) })
	}
}

// TestReadOnlySQLite: one connection of the pool cannot write.
func TestReadOnlySQLite(t *testing.T) {
	t.Parallel()
	db, err := databases["sqlite"](t).pool()
	noError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	s, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite)
	noError(t, err)
	defer s.Close()
	server.Execute(t, db, "PRAGMA query_only = 1")
	refusedOnce(t, s)
}
