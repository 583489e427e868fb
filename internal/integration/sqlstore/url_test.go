package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
)

// urls start a database and return its URL. On a server, the tables were made by an administrator,
// and the user of the URL may only SELECT, INSERT, UPDATE and DELETE.
var urls = map[string]func(testing.TB) (string, sqlstore.Opener){
	"postgres": func(t testing.TB) (string, sqlstore.Opener) {
		srv := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=300"}})
		limitedPostgres(t, srv.URL(), "public")
		return strings.Replace(srv.URL(), "postgres@", "app@", 1), postgres.Opener()
	},
	"mariadb": func(t testing.TB) (string, sqlstore.Opener) {
		srv := server.MariaDB(t, "TZ=Europe/Berlin")
		limitedMariaDB(t, srv.URL(), "secret word")
		return "mysql://app:secret%20word@" + srv.Addr() + "/locks", mysql.Opener()
	},
	"sqlite": func(t testing.TB) (string, sqlstore.Opener) {
		return "sqlite://" + filepath.Join(t.TempDir(), "new", "db"), sqlite.Opener()
	},
}

// run carries out statements as an administrator.
func run(t testing.TB, name, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open(name, dsn)
	noError(t, err)
	defer db.Close()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// limitedPostgres makes the tables, and the user app with few rights.
func limitedPostgres(t testing.TB, dsn, schema string) {
	t.Helper()
	list, err := sqlstore.Schema(sqlstore.PostgreSQL, schema)
	noError(t, err)
	run(t, "pgx", dsn, append([]string{"CREATE SCHEMA IF NOT EXISTS " + schema}, append(list, "CREATE USER app",
		"GRANT USAGE ON SCHEMA "+schema+" TO app",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+schema+".padlock_locks, "+schema+".padlock_grants, "+schema+".padlock_meta, "+schema+".padlock_runs TO app")...)...)
}

func limitedMariaDB(t testing.TB, dsn, password string) {
	t.Helper()
	list, err := sqlstore.Schema(sqlstore.MySQL, "locks")
	noError(t, err)
	run(t, "mysql", dsn, append([]string{"CREATE DATABASE locks"}, append(list, "CREATE USER app IDENTIFIED BY '"+password+"'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON locks.padlock_locks TO app",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON locks.padlock_grants TO app",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON locks.padlock_meta TO app",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON locks.padlock_runs TO app")...)...)
}

func fromURL(ctx context.Context, rawURL string, o sqlstore.Opener, opts ...sqlstore.Option) (driver.Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	s, err := sqlstore.FromURL(ctx, u, o, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func take(t *testing.T, s driver.Store, name, token string) error {
	t.Helper()
	_, err := s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute})
	return err
}

// Two users whose search paths differ share the locks.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	run(t, "pgx", srv.URL(), "CREATE USER a SUPERUSER", "CREATE USER b SUPERUSER", "CREATE SCHEMA a", "CREATE SCHEMA b",
		"ALTER USER a SET search_path = a, public", "ALTER USER b SET search_path = b")
	for i, user := range []string{"a@", "b@"} {
		s, err := fromURL(t.Context(), strings.Replace(srv.URL(), "postgres@", user, 1), postgres.Opener())
		noError(t, err)
		defer s.Close()
		if err := take(t, s, "name", user); errors.Is(err, driver.ErrHeld) != (i == 1) {
			t.Errorf("user %s: %v", user, err)
		}
	}
}

// Tables of another version are refused, and the error says what to do.
func TestVersions(t *testing.T) {
	t.Parallel()
	rawURL, o := urls["sqlite"](t)
	u, err := url.Parse(rawURL)
	noError(t, err)
	old, err := fromURL(t.Context(), rawURL, o)
	noError(t, err)
	defer old.Close()
	for version, want := range map[string]string{"2": "install the newest padlock", "no": "is not a number"} {
		run(t, "sqlite", u.Path, "UPDATE padlock_meta SET value = '"+version+"' WHERE setting = 'schema'")
		if _, err := fromURL(t.Context(), rawURL, o); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("version %s: %v", version, err)
		}
		lazy, err := fromURL(t.Context(), rawURL+"?lazy=yes", o)
		noError(t, err)
		defer lazy.Close()
		if err := take(t, lazy, "lazy", "t"); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("version %s, found by the first call: %v", version, err)
		}
	}
}

// The password is read from its file for each connection, so it can change while the store is open.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	srv := server.MariaDB(t)
	limitedMariaDB(t, srv.URL(), "before")
	file := filepath.Join(t.TempDir(), "password")
	noError(t, os.WriteFile(file, []byte("before\n"), 0o600))
	s, err := fromURL(t.Context(), "mysql://app@"+srv.Addr()+"/locks?password-file="+url.QueryEscape(file), mysql.Opener())
	noError(t, err)
	defer s.Close()
	noError(t, take(t, s, "name", "first"))
	run(t, "mysql", srv.URL(), "ALTER USER app IDENTIFIED BY 'afterwards'", "KILL USER app")
	noError(t, os.WriteFile(file, []byte("afterwards"), 0o600))
	if err := take(t, s, "name", "second"); !errors.Is(err, driver.ErrHeld) {
		if err = take(t, s, "name", "third"); !errors.Is(err, driver.ErrHeld) { // the first finds the connection cut
			t.Errorf("with a new password: %v", err)
		}
	}
}

// No error holds the user or the password.
func TestLoginsStaySecret(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	const user, password = "canaryuser", "canaryword"
	pg, maria := server.Postgres(t, server.PostgresOptions{}), server.MariaDB(t)
	run(t, "mysql", maria.URL(), "CREATE USER "+user+" IDENTIFIED BY 'another'")
	for rawURL, o := range map[string]sqlstore.Opener{
		"postgres://" + user + ":" + password + "@" + pg.Addr() + "/postgres?sslmode=disable":          postgres.Opener(),
		"postgres://" + user + ":" + password + "@" + pg.Addr() + "/postgres?sslmode=disable&lazy=yes": postgres.Opener(),
		"postgres://" + user + ":" + password + "@127.0.0.1:1/x?sslmode=disable":                       postgres.Opener(),
		"mysql://" + user + ":" + password + "@" + maria.Addr() + "/mysql":                             mysql.Opener(),
		"mysql://" + user + ":" + password + "@127.0.0.1:1/mysql":                                      mysql.Opener(),
	} {
		s, err := fromURL(t.Context(), rawURL, o)
		if err == nil {
			defer s.Close()
			err = take(t, s, "name", "t")
		}
		if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", strings.SplitN(rawURL, "@", 2)[1], err)
		}
	}
}
