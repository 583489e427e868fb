package rig

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/sqlstore"
	"github.com/padlock-go/padlock/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/sqlstore/drivers/sqlite"
)

// A database is a kind of database in which the locks of a row are.
type database struct {
	start func(*Site) *server.Server // nil if the database is a file
	// url returns the URL of the database at an address, or in a directory.
	url func(at string) string
	// open opens the database as an administrator.
	open func(url string) (*sql.DB, sqlstore.Listener, error)

	kill         string // SQL that ends all other connections
	lock, unlock []string
}

var (
	postgreSQL = database{
		start: func(s *Site) *server.Server { return server.Postgres(&s.host, server.PostgresOptions{}) },
		url:   func(at string) string { return "postgres://postgres@" + at + "/postgres?sslmode=disable" },
		open:  postgres.Open,
		kill:  "SELECT 'SELECT pg_terminate_backend(' || pid || ')' FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
		lock:  []string{"BEGIN", "LOCK TABLE public.padlock_locks IN ACCESS EXCLUSIVE MODE"}, unlock: []string{"ROLLBACK"},
	}
	mariaDB = database{
		start: func(s *Site) *server.Server { return server.MariaDB(&s.host) },
		url:   func(at string) string { return "mysql://root@" + at + "/mysql" },
		open:  mysql.Open,
		kill:  "SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'",
		lock:  []string{"LOCK TABLES padlock_locks WRITE, padlock_grants WRITE"}, unlock: []string{"UNLOCK TABLES"},
	}
	sqliteFile = database{
		url:  func(dir string) string { return "sqlite://" + filepath.Join(dir, "locks.db") },
		open: sqlite.Open,
		lock: []string{"BEGIN IMMEDIATE"}, unlock: []string{"ROLLBACK"},
	}
)

// tableLocked is how long an administrator locks the table. It delays every statement, but is
// shorter than the leases.
const tableLocked = 700 * time.Millisecond

// inDatabase returns a row whose locks are in a database.
func inDatabase(d database) func(*Site) (*setup, error) {
	return func(s *Site) (*setup, error) {
		if d.start == nil {
			url := d.url(s.dir)
			faults := []soak.Fault{d.lockTable(url), d.deleteRows(url)}
			return &setup{stages: [][]string{slices.Repeat([]string{url}, s.Workers)}, open: Open, faults: faults}, d.prepare(url)
		}
		var srv *server.Server
		if err := try(func() { srv = d.start(s) }); err != nil {
			return nil, err
		}
		links, err := s.links([]*server.Server{srv})
		if err != nil {
			return nil, err
		}
		var stage []string
		for _, worker := range links {
			stage = append(stage, d.url(worker[0].Listen))
		}
		admin := d.url(srv.Addr())
		faults := append(networkFaults(links), d.serverFaults(srv, admin)...)
		return &setup{stages: [][]string{stage}, open: Open, faults: faults}, d.prepare(admin)
	}
}

// prepare creates the tables.
func (d *database) prepare(url string) error {
	store, err := Open(context.Background(), url)
	if err != nil {
		return err
	}
	return store.Close()
}

func (d *database) serverFaults(srv *server.Server, admin string) []soak.Fault {
	const grace = 6 * time.Second // the server has to recover, and calls give up after 4.5 s
	on := soak.Targets(serverTarget, 1)
	fault := func(kind string, weight int, last time.Duration, begin func() (func() error, error)) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: last, Grace: grace, Weight: weight, Begin: func(*rand.Rand, int) (func() error, error) { return begin() }}
	}
	locked, deleted := d.lockTable(admin), d.deleteRows(admin)
	locked.On, deleted.On = on, on
	return []soak.Fault{
		restart("restart with data", []*server.Server{srv}, true, grace),
		fault("immediate shutdown", 1, 300*time.Millisecond, func() (func() error, error) {
			p, err := os.FindProcess(srv.Pid())
			if err == nil {
				err = p.Signal(syscall.SIGQUIT)
			}
			return func() error { return try(func() { srv.Kill(); srv.Restart(true) }) }, err
		}),
		fault("stop server", 2, 1500*time.Millisecond, func() (func() error, error) {
			return func() error { return try(srv.Resume) }, try(srv.Pause)
		}),
		fault("connections killed", 5, 0, func() (func() error, error) { return nil, d.killOthers(admin) }),
		locked, deleted,
	}
}

// killOthers ends the connections of all workers in the server.
func (d *database) killOthers(admin string) error {
	return d.administer(admin, func(ctx context.Context, conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, d.kill)
		if err != nil {
			return err
		}
		var statements []string
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			statements = append(statements, text)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		for _, text := range statements {
			_, _ = conn.ExecContext(ctx, text) // the connection may have ended already
		}
		return nil
	})
}

// lockTable locks the table, as a migration or a backup does. Nobody else can use it.
func (d *database) lockTable(admin string) soak.Fault {
	return soak.Fault{Kind: "table locked", Last: tableLocked, Grace: 4 * time.Second, Weight: 2, Begin: func(*rand.Rand, int) (func() error, error) {
		db, _, err := d.open(admin)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		conn, err := db.Conn(ctx)
		if err != nil {
			db.Close()
			return nil, err
		}
		undo := func() error {
			defer db.Close()
			defer conn.Close()
			return execute(ctx, conn, d.unlock)
		}
		if err := execute(ctx, conn, d.lock); err != nil {
			return nil, fmt.Errorf("%w, and then %w", err, undo())
		}
		return undo, nil
	}}
}

// deleteRows deletes all rows, which no administrator is allowed to do. It makes all locks free at
// once.
func (d *database) deleteRows(admin string) soak.Fault {
	return soak.Fault{Kind: "rows deleted", Grace: 4 * time.Second, Begin: func(*rand.Rand, int) (func() error, error) {
		return nil, d.administer(admin, func(ctx context.Context, conn *sql.Conn) error {
			return execute(ctx, conn, []string{"DELETE FROM padlock_locks"})
		})
	}}
}

// administer calls f with a connection to the server itself.
func (d *database) administer(url string, f func(ctx context.Context, conn *sql.Conn) error) error {
	db, _, err := d.open(url)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(ctx, conn)
}

func execute(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, text := range statements {
		for {
			_, err := conn.ExecContext(ctx, text)
			if err == nil {
				break
			}
			if ctx.Err() != nil || text != "BEGIN IMMEDIATE" {
				return err
			}
		}
	}
	return nil
}
