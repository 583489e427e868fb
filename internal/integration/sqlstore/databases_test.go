package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
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

var databases = map[string]func(testing.TB) database{
	"postgres": func(t testing.TB) database {
		return database{"pgx", server.Postgres(t, server.PostgresOptions{}).URL(), sqlstore.PostgreSQL}
	},
	"mariadb": func(t testing.TB) database {
		return database{"mysql", server.MariaDB(t, "TZ=Europe/Berlin").URL(), sqlstore.MySQL}
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

// TestContract runs the suite over URLs, on servers as a user that may only SELECT, INSERT, UPDATE
// and DELETE.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, start := range urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rawURL, o := start(t)
			open := func(ctx context.Context) (driver.Store, error) { return fromURL(ctx, rawURL, o) }
			parallel := 8
			if name == "sqlite" {
				parallel = 2 // a pool of three connections; see TestOneConnection
			}
			drivertest.Run(t, drivertest.Harness{Open: open, Slow: true, Parallel: parallel})
		})
	}
}
