package advisory_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
	"github.com/padlock-go/padlock/stores/pgadvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

// A system is one of the servers, with what a test of both has to say in its own words.
type system struct {
	name    string
	scheme  storeurl.Scheme
	driver  string                                 // of package database/sql, for the URL of a server
	own     func(testing.TB) *server.Server        // starts a server
	shared  func(testing.TB) *server.Server        // makes a database on a server that tests share
	url     func(serverURL, query string) *url.URL // of a store
	patient string                                 // parameters of a store that bears a busy machine
	short   string                                 // parameters of a store whose loss is soon noticed

	waiting string                   // counts the sessions that wait for a lock
	locks   string                   // counts the locks of padlock, or at least the sessions that wait for one
	session func(name string) string // the query for the session that has a lock, or 0
	kill    string                   // ends that session
	noSweep []string                 // keep the stores' own sweep away
	user    string                   // makes a user without a password
}

var postgres = &system{
	name: "postgres", scheme: pgadvisory.Scheme(), driver: "pgx",
	own:    func(t testing.TB) *server.Server { return server.Postgres(t, server.PostgresOptions{Args: many}) },
	shared: server.SharedPostgres,
	url: func(at, query string) *url.URL {
		return parsed("postgres+advisory" + strings.TrimPrefix(at, "postgres") + "&" + query)
	},
	patient: "loss-delay=10s",
	short:   "loss-delay=7s",

	waiting: "SELECT count(*) FROM " + advisoryLocks + " AND NOT granted",
	locks: "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE locktype = 'advisory'" +
		" AND datname = current_database() AND application_name LIKE 'padlock %'",
	session: func(string) string { return "SELECT coalesce(min(pid), 0) FROM " + advisoryLocks }, // one test, one database
	kill:    "SELECT pg_terminate_backend(%d)",
	noSweep: []string{
		"CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"CREATE TRIGGER never BEFORE INSERT ON padlock_fences FOR EACH ROW WHEN (NEW.name = 'last sweep of this table') EXECUTE FUNCTION never()",
	},
	user: "CREATE ROLE %s LOGIN",
}

// many has the arguments for a server whose suite opens a large number of stores at once.
var many = []string{"-c", "max_connections=400"}

// advisoryLocks are those of a test's database.
const advisoryLocks = "pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"

var mariadb = &system{
	name: "mariadb", scheme: mysql.AdvisoryScheme(), driver: "mysql",
	own:     func(t testing.TB) *server.Server { return server.MariaDB(t) },
	shared:  server.SharedMariaDB,
	url:     mariaURL,
	patient: "loss-delay=20s",
	short:   "loss-delay=5s",

	waiting: "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND db = DATABASE()",
	locks:   "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND db = DATABASE()",
	session: func(name string) string { return "SELECT COALESCE(IS_USED_LOCK(SHA2('" + name + "', 256)), 0)" },
	kill:    "KILL %d",
	noSweep: []string{"INSERT INTO padlock_fences (lock_name, fence, name, session, since, holder)" +
		" VALUES ('padlock sweep', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'last sweep of this table', '-', 0, '')"},
	user: "CREATE USER %s",
}

// pool is mariadb with a pool of the program.
var pool = func() *system {
	p := *mariadb
	p.name = "pool"
	p.scheme = mysqladvisory.Opener{Open: func(u *url.URL, _ func() (string, error)) (*sql.DB, error) {
		return sql.Open("mysql", u.User.Username()+"@tcp("+u.Host+")"+u.Path)
	}}.Scheme()
	return &p
}()

// mariaURL turns a DSN of the Go driver into a URL.
func mariaURL(dsn, query string) *url.URL {
	return parsed("mysql+advisory://" + strings.NewReplacer("tcp(", "", ")", "").Replace(dsn) + "?" + query)
}

func parsed(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}

// each runs a test on every system, at the same time.
func each(t *testing.T, f func(t *testing.T, sys *system)) { on(t, f, postgres, mariadb) }

func on(t *testing.T, f func(t *testing.T, sys *system), systems ...*system) {
	t.Parallel()
	for _, sys := range systems {
		t.Run(sys.name, func(t *testing.T) {
			t.Parallel()
			f(t, sys)
		})
	}
}

// A store is what both stores can do.
type store interface {
	driver.Store
	driver.Waiter
	driver.Admin
	driver.FenceRaiser
	driver.Places
	Prune(ctx context.Context) (int, error)
}

// open opens a store on a server, as another process would.
func (sys *system) open(ctx context.Context, serverURL, query string) (store, error) {
	return sys.openURL(ctx, sys.url(serverURL, query))
}

func (sys *system) openURL(ctx context.Context, u *url.URL) (store, error) {
	s, err := sys.scheme.Open(ctx, u, storeurl.Opening{})
	if err != nil {
		return nil, err
	}
	return s.(store), nil
}

// mustOpen opens a patient store, unless the query says otherwise.
func (sys *system) mustOpen(t testing.TB, serverURL, query string) store {
	t.Helper()
	if !strings.Contains(query, "loss-delay") {
		query += "&" + sys.patient
	}
	s, err := sys.open(t.Context(), serverURL, query)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// db returns a pool of an administrator.
func (sys *system) db(t testing.TB, serverURL string) *sql.DB {
	t.Helper()
	db, err := sql.Open(sys.driver, serverURL)
	noError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// queued waits until n sessions are in the server's queue.
func (sys *system) queued(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	until(t, "waiters in the queue", func() bool { return ask[int](t, db, sys.waiting) >= n })
}
