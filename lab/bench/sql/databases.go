//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers
	_ "modernc.org/sqlite"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// bench is the state of one run of the benchmark.
type bench struct {
	plan  plan
	dir   string // on a file system in memory, if there is one
	pg    string // the URL of PostgreSQL
	maria string // the DSN of MariaDB
	admin *sql.DB
}

// start starts PostgreSQL and MariaDB. Their data are in memory.
func (b *bench) start(r *measure.Run) (err error) {
	if b.dir, err = os.MkdirTemp("/dev/shm", "padlock-bench-sql-"); err != nil {
		return err
	}
	r.Cleanup(b.close)
	if err := os.Setenv("TMPDIR", b.dir); err != nil {
		return err
	}
	if err := os.Chmod(b.dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	err = r.Try(func(t testing.TB) {
		b.pg = server.Postgres(t, server.PostgresOptions{Args: []string{
			"-c", "shared_preload_libraries=pg_stat_statements", "-c", "max_connections=500",
		}}).URL()
		b.maria = server.MariaDB(t).URL()
	})
	if err != nil {
		return err
	}
	if b.admin, err = sql.Open("pgx", b.pg); err != nil {
		return err
	}
	_, err = b.admin.Exec("CREATE EXTENSION pg_stat_statements")
	return err
}

func (b *bench) close() {
	if b.admin != nil {
		b.admin.Close()
	}
	os.RemoveAll(b.dir)
}

// open connects to an engine, as a separate process would.
func (b *bench) open(e sqlstore.Engine, conns int) (*sql.DB, error) {
	name, dsn := "pgx", b.pg
	if e == sqlstore.SQLite {
		name, dsn = "sqlite", "file:"+filepath.Join(b.dir, "db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
	}
	db, err := sql.Open(name, dsn)
	if err == nil {
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
	}
	return db, err
}

// process opens a pool, a store and a Locker, as a separate process would.
func (b *bench) process(*trial.Counter) (*trial.Client, error) {
	db, err := b.open(sqlstore.PostgreSQL, 4)
	if err != nil {
		return nil, err
	}
	unused, l, err := postgres.Open(b.pg)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	unused.Close()
	s, err := sqlstore.Open(context.Background(), db, sqlstore.PostgreSQL, sqlstore.Notify(l))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c := trial.Face(s)
	end := c.Close
	c.Close = func() error { return errors.Join(end(), db.Close()) }
	return c, nil
}

// calls returns how many statements the server has run for locks.
func (b *bench) calls() (n float64, err error) {
	err = b.admin.QueryRow("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%padlock_locks%' OR query LIKE '%padlock_grants%' OR query LIKE '%pg_notify%'").Scan(&n)
	return n, err
}
