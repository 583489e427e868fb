package sqlstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// wantText checks the class of an error and a part of its text.
func wantText(t *testing.T, what string, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v; want %v, and %q in its text", what, err, want, text)
	}
}

// A pool that is too small for the store and a transaction is an error and not a wait for ever. It
// is found without the server.
func TestPoolTooSmall(t *testing.T) {
	t.Parallel()
	for _, d := range []database{
		{"pgx", "postgres://nobody@127.0.0.1:1/nowhere", sqlstore.PostgreSQL},
		{"mysql", "nobody@tcp(127.0.0.1:1)/nowhere", sqlstore.MySQL},
	} {
		db, err := d.pool()
		noError(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		_, err = sqlstore.Open(t.Context(), db, d.engine)
		wantText(t, d.driver, err, driver.ErrInvalid, "SetMaxOpenConns")
	}
}

// limited is a server on which an administrator has made no tables yet.
type limited struct {
	admin  database
	rawURL string // of the user app, whose only rights are SELECT, INSERT, UPDATE and DELETE
	poor   string // of a user who may do nothing
	o      sqlstore.Opener
	tables func()

	readOnly, writable string
	victims            []string
}

func limitedServers() map[string]func(*testing.T) limited {
	return map[string]func(*testing.T) limited{
		"postgres": func(t *testing.T) limited {
			srv := server.Postgres(t, server.PostgresOptions{})
			run(t, "pgx", srv.URL(), "CREATE USER poor")
			as := func(user string) string { return strings.Replace(srv.URL(), "postgres@", user+"@", 1) }
			return limited{
				database{"pgx", srv.URL(), sqlstore.PostgreSQL}, as("app"), as("poor"), postgres.Opener(), func() { limitedPostgres(t, srv.URL(), "public") },
				"ALTER ROLE app SET default_transaction_read_only = on", "ALTER ROLE app RESET default_transaction_read_only",
				[]string{"CREATE SEQUENCE tries", "CREATE FUNCTION victim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN CASE nextval('tries') % 3 " +
					"WHEN 1 THEN RAISE EXCEPTION 'a deadlock' USING ERRCODE = '40P01'; WHEN 2 THEN RAISE EXCEPTION 'not serializable' USING ERRCODE = '40001'; " +
					"ELSE RETURN NEW; END CASE; END $$", "CREATE TRIGGER victims BEFORE UPDATE ON padlock_locks FOR EACH ROW EXECUTE FUNCTION victim()"},
			}
		},
		"mariadb": func(t *testing.T) limited {
			srv := server.MariaDB(t)
			run(t, "mysql", srv.URL(), "CREATE USER poor")
			locks := strings.TrimSuffix(srv.URL(), "mysql") + "locks"
			return limited{
				database{"mysql", locks, sqlstore.MySQL}, "mysql://app:word@" + srv.Addr() + "/locks", "mysql://poor@" + srv.Addr() + "/mysql",
				mysql.Opener(), func() { limitedMariaDB(t, srv.URL(), "word") },
				"SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0",
				[]string{"CREATE SEQUENCE tries", "CREATE TRIGGER victims BEFORE UPDATE ON padlock_locks FOR EACH ROW BEGIN " +
					"IF NEXT VALUE FOR tries % 3 <> 0 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; END"},
			}
		},
	}
}

// TestRefusals is about servers that refuse what a store asks for.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, start := range limitedServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := start(t)
			t.Run("a user who may not make the tables", func(t *testing.T) { l.noRight(t) })
			l.tables()
			t.Run("read-only", func(t *testing.T) { l.refusesWrites(t) })
			t.Run("rights that are missing", func(t *testing.T) { l.missesRights(t) })
			t.Run("victims", func(t *testing.T) { l.triesAgain(t) })
		})
	}
}

// A user who may not make the tables learns what an administrator has to run.
func (l *limited) noRight(t *testing.T) {
	_, err := fromURL(t.Context(), l.poor, l.o)
	wantText(t, "Open", err, driver.ErrUnavailable, "")
	if l.admin.engine == sqlstore.PostgreSQL { // on MariaDB the user does not even see the database
		wantText(t, "Open", err, driver.ErrUnavailable, "padlock schema")
	}
}

// tableRights returns what Status finds out about the rights on the tables.
func tableRights(t *testing.T, s driver.Store) driver.Finding {
	t.Helper()
	found, err := s.(driver.Reporter).Status(t.Context())
	noError(t, err)
	i := slices.IndexFunc(found, func(f driver.Finding) bool { return f.Name == "table-rights" })
	if i < 0 {
		t.Fatalf("no finding about the rights: %+v", found)
	}
	return found[i]
}

// Status names the rights that a user lacks, also those that locks rarely need.
func (l *limited) missesRights(t *testing.T) {
	s, err := fromURL(t.Context(), l.rawURL, l.o)
	noError(t, err)
	defer s.Close()
	rights := func() driver.Finding { return tableRights(t, s) }
	if f := rights(); f.Value != "complete" || f.Advice != "" {
		t.Errorf("a user with all rights: %+v", f)
	}
	change := func(grant, to string) {
		for _, right := range []string{"UPDATE ON padlock_grants", "DELETE ON padlock_locks", "SELECT, INSERT, UPDATE, DELETE ON padlock_runs"} {
			run(t, l.admin.driver, l.admin.dsn, grant+" "+right+" "+to+" app")
		}
	}
	change("REVOKE", "FROM")
	defer change("GRANT", "TO")
	const want = "DELETE on padlock_locks; UPDATE on padlock_grants; SELECT, INSERT, UPDATE, DELETE on padlock_runs"
	if f := rights(); !strings.Contains(f.Value, want) || !strings.Contains(f.Advice, "GRANT") {
		t.Errorf("a user without %s: %+v", want, f)
	}
}

// A server that does not let a program write is refused. If it becomes so later, calls fail and
// change nothing.
func (l *limited) refusesWrites(t *testing.T) {
	before, err := fromURL(t.Context(), l.rawURL, l.o)
	noError(t, err)
	defer before.Close()
	noError(t, take(t, before, "name", "t"))
	run(t, l.admin.driver, l.admin.dsn, l.readOnly)
	_, err = fromURL(t.Context(), l.rawURL, l.o)
	wantText(t, "Open", err, driver.ErrUnavailable, "read-only")
	lazy, err := fromURL(t.Context(), withParameter(l.rawURL, "lazy=yes"), l.o)
	noError(t, err)
	defer lazy.Close()
	wantText(t, "the first call of a lazy store", take(t, lazy, "name", "t"), driver.ErrUnavailable, "read-only")
	if f := tableRights(t, lazy); f.Value != driver.Unknown { // the server refuses before it looks at them
		t.Errorf("the rights on a server that refuses writes: %+v", f)
	}
	if l.admin.engine == sqlstore.MySQL { // PostgreSQL's setting counts for new sessions only
		wantText(t, "Acquire on a server that became read-only", take(t, before, "other name", "t"), driver.ErrUnavailable, "read-only")
	}
	run(t, l.admin.driver, l.admin.dsn, l.writable)
	noError(t, take(t, before, "name", "t"))
}

// A statement that the server chose as the victim of a deadlock, or that could not be serialized,
// is tried again.
func (l *limited) triesAgain(t *testing.T) {
	p := l.admin.party(t)
	for _, text := range l.victims {
		_, err := p.db.Exec(text)
		noError(t, err)
	}
	for range 5 {
		lock, err := p.locker.TryAcquire(t.Context(), "victim")
		noError(t, err)
		noError(t, lock.Extend(context.Background(), 0))
		noError(t, lock.Release())
	}
}

func withParameter(rawURL, parameter string) string {
	if strings.Contains(rawURL, "?") {
		return rawURL + "&" + parameter
	}
	return rawURL + "?" + parameter
}

// With lazy=yes a store opens while its server is down. Calls fail until the server is there.
func TestLazyOpenOfADeadServer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (*server.Server, string){
		"postgres": func(t *testing.T) (*server.Server, string) {
			srv := server.Postgres(t, server.PostgresOptions{})
			return srv, srv.URL()
		},
		"postgres+advisory": func(t *testing.T) (*server.Server, string) {
			srv := server.Postgres(t, server.PostgresOptions{})
			return srv, "postgres+advisory" + strings.TrimPrefix(srv.URL(), "postgres")
		},
		"mysql": func(t *testing.T) (*server.Server, string) {
			srv := server.MariaDB(t)
			return srv, "mysql://root@" + srv.Addr() + "/mysql"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, rawURL := start(t)
			srv.Kill()
			if _, err := all.Store(t.Context(), rawURL); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("Open: %v", err)
			}
			s, err := all.Store(t.Context(), withParameter(rawURL, "lazy=yes"))
			noError(t, err)
			defer s.Close()
			if err := take(t, s, "name", "t"); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
				t.Errorf("Acquire while the server is down: %v", err)
			}
			srv.Restart(true)
			_, err = get(t, s, "name", "t")
			noError(t, err)
		})
	}
}

// A URL that is wrong is refused before anything is sent, and the error says which part is wrong.
func TestWrongURLs(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"postgres://localhost/shop?colour=red":                "colour",
		"postgres://localhost/shop?pool=none":                 "pool",
		"postgres://localhost/shop?pool=1":                    "pool",
		"postgres://localhost/shop?schema=a.b":                "schema",
		"postgres://localhost/shop?search_path=a":             "write schema=NAME",
		"postgres://localhost/shop?lazy=perhaps":              "lazy",
		"postgres://localhost/shop?notify=perhaps":            "notify",
		"postgres://db.example/shop":                          "sslmode=verify-full",
		"postgres://u:canary@h/shop?password-file=f":          "password",
		"mysql://localhost/shop?colour=red":                   "colour",
		"mysql://db.example/shop?tls=preferred":               "tls",
		"mysql://localhost":                                   "database",
		"sqlite:///tmp/db?colour=red":                         "colour",
		"sqlite://host/db":                                    "sqlite",
		"postgres://u:canary@localhost/shop?sslmode=canary":   "sslmode",
		"postgres+advisory://u:canary@localhost/shop?pool=10": "pool",
	} {
		s, err := all.Store(t.Context(), rawURL)
		if err == nil {
			s.Close()
		}
		wantText(t, rawURL, err, driver.ErrInvalid, want)
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows a password: %v", rawURL, err)
		}
	}
}
