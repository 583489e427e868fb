package sqlstore_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A database is a running database for the tests.
type database struct {
	driver, dsn string
	engine      sqlstore.Engine
}

func TestMain(m *testing.M) {
	if args := os.Getenv(leaderEnv); args != "" {
		leaderMain(strings.Split(args, "\n"))
	}
	os.Exit(server.Main(m))
}

// databases make a database on a server that other tests use, too.
var databases = map[string]func(testing.TB) database{
	"postgres": func(t testing.TB) database {
		return database{"pgx", server.SharedPostgres(t).URL(), sqlstore.PostgreSQL}
	},
	"mariadb": func(t testing.TB) database {
		return database{"mysql", server.SharedMariaDB(t).URL(), sqlstore.MySQL}
	},
	"sqlite": func(t testing.TB) database {
		return database{"sqlite", "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)", sqlstore.SQLite}
	},
}

// pool connects; every call is another pool, as another process has one. The pool keeps its
// connections, as a pool of FromURL does: by default it would keep two of ten, and a busy machine
// would do little but connect.
func (d database) pool() (*sql.DB, error) {
	db, err := sql.Open(d.driver, d.dsn)
	if err == nil {
		db.SetMaxOpenConns(10)
		db.SetMaxIdleConns(10)
	}
	return db, err
}

// ownPool is a store that closes its pool.
type ownPool struct {
	*sqlstore.Store
	db *sql.DB
}

func (o ownPool) Close() error {
	err := o.Store.Close()
	o.db.Close()
	return err
}

func (d database) open(ctx context.Context) (driver.Store, error) {
	db, err := d.pool()
	if err != nil {
		return nil, err
	}
	s, err := sqlstore.Open(ctx, db, d.engine)
	if err != nil {
		db.Close()
		return nil, err
	}
	return ownPool{s, db}, nil
}

// A way opens another store on a database.
type way = func(context.Context) (driver.Store, error)

// inTurn opens stores in several ways. All cases of the suite share the first two stores, and many
// cases use only the first one, so chance says which way comes first. A test that fails names it.
func inTurn(t *testing.T, ways ...way) way {
	t.Helper()
	var opened atomic.Int64
	opened.Store(rand.Int64N(int64(len(ways))))
	t.Logf("the first store is of way %d of %d", opened.Load()+1, len(ways))
	return func(ctx context.Context) (driver.Store, error) {
		return ways[int(opened.Add(1)-1)%len(ways)](ctx)
	}
}

// TestContract runs the suite over URLs, on servers as a user that may only SELECT, INSERT, UPDATE
// and DELETE. TestPgBouncer does so on PostgreSQL.
//
// On MariaDB, the transactions of every second store are serializable: its reads lock what they
// read.
//
// On SQLite, every second store has a pool of one connection, as it is usual. Four cases run at
// once: with more, the callers would wait for the connection longer than a call may take when the
// machine is busy.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, start := range urls {
		if name == "postgres" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rawURL, o := start(t)
			ways := []way{func(ctx context.Context) (driver.Store, error) { return fromURL(ctx, rawURL, o) }}
			parallel := 8
			switch name {
			case "mariadb":
				ways = append(ways, serializableMariaDB(t, rawURL))
			case "sqlite":
				ways = append(ways, oneConnection(strings.TrimPrefix(rawURL, "sqlite://")))
				parallel = 4
			}
			drivertest.Run(t, drivertest.Harness{Open: inTurn(t, ways...), Slow: true, Parallel: parallel})
		})
	}
}

// serializableMariaDB opens the database of a URL.
func serializableMariaDB(t *testing.T, rawURL string) way {
	u, err := url.Parse(rawURL)
	noError(t, err)
	password, _ := u.User.Password()
	dsn := u.User.Username() + ":" + password + "@tcp(" + u.Host + ")" + u.Path + "?tx_isolation=%27SERIALIZABLE%27"
	return database{"mysql", dsn, sqlstore.MySQL}.open
}

// oneConnection opens an SQLite file in a pool of one. It makes the directory, as a URL does.
func oneConnection(path string) way {
	return func(ctx context.Context) (driver.Store, error) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		s, err := sqlstore.Open(ctx, db, sqlstore.SQLite)
		return ownPool{s, db}, err
	}
}
