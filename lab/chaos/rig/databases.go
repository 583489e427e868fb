package rig

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
)

// A database describes a kind of database for padlock's locks, such as PostgreSQL.
type database struct {
	// start starts a server. Its second argument is the directory for the server's data, or "" for
	// any directory. If the database is a file, start is nil.
	start func(*Site, string) *server.Server
	// url returns the URL with which a worker opens the store. admin returns the URL with which the
	// chaos run itself connects, as an administrator. The argument of both functions is the address
	// of the server, or the directory of the database file.
	url, admin   func(at string) string
	open         func(url string) (*sql.DB, sqlstore.Listener, error)
	kill         string // ends the connections of all clients, perhaps with its own
	table        string // the fault rowsDeleted deletes all rows of this table
	lock, unlock []string
	disk         disk
}

var (
	postgreSQL = database{
		start: postgresServer, admin: postgresURL, url: postgresURL, open: postgres.Open, kill: killPostgres,
		table: "public.padlock_locks",
		lock:  lockPostgres("public.padlock_locks"), unlock: []string{"ROLLBACK"},
		disk: disk{size: 192, sqlAfter: "SELECT pg_switch_wal()"},
	}
	advisory = database{
		start: postgresServer, admin: postgresURL, open: postgres.Open, kill: killPostgres,
		url: func(at string) string {
			return "postgres+advisory://" + strings.TrimPrefix(postgresURL(at), "postgres://") + "&loss-delay=2s"
		},
		table: "public.padlock_fences",
		lock:  lockPostgres("public.padlock_fences"), unlock: []string{"ROLLBACK"},
		disk: disk{size: 192, sqlAfter: "SELECT pg_switch_wal()"},
	}
	mariaDB = database{
		start: mariaServer, admin: mariaURL, url: mariaURL, open: mysql.Open, kill: killMaria,
		table: "padlock_locks",
		lock:  []string{"LOCK TABLES padlock_locks WRITE, padlock_grants WRITE"}, unlock: []string{"UNLOCK TABLES"},
	}
	named = database{
		start: mariaServer, admin: mariaURL, open: mysql.Open, kill: killMaria,
		url: func(at string) string {
			return "mysql+advisory://" + strings.TrimPrefix(mariaURL(at), "mysql://") + "?loss-delay=2s"
		},
		table: "padlock_fences",
		lock:  []string{"LOCK TABLES padlock_fences WRITE"}, unlock: []string{"UNLOCK TABLES"},
	}
	sqliteFile = database{
		admin: sqliteURL, url: sqliteURL, open: sqlite.Open,
		table: "padlock_locks",
		lock:  []string{"BEGIN IMMEDIATE"}, unlock: []string{"ROLLBACK"},
		disk: disk{size: 16, sqlBefore: "PRAGMA wal_checkpoint(TRUNCATE)"},
	}
	symfonyFile = database{
		admin: sqliteURL, open: sqlite.Open,
		url:   func(dir string) string { return sqliteURL(dir) + "?layout=symfony" },
		table: "lock_keys",
		lock:  []string{"BEGIN IMMEDIATE"}, unlock: []string{"ROLLBACK"},
	}
)

const killMaria = "KILL USER root"

// mariaServer starts a server whose tables are all in one file of at most 24 MB, so that a fault
// can fill it.
func mariaServer(s *Site, _ string) *server.Server {
	return server.MariaDBWith(&s.host, server.MariaDBOptions{Env: s.clockEnv(), Args: []string{"--innodb-data-file-path=ibdata1:12M:autoextend:max:24M", "--innodb-file-per-table=OFF"}})
}

const killPostgres = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"

func lockPostgres(table string) []string {
	return []string{"BEGIN", "LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"}
}

// postgresArgs limit the write-ahead log, so that it fits on a small disk.
var postgresArgs = []string{"-c", "max_connections=300", "-c", "max_wal_size=48MB", "-c", "min_wal_size=32MB"}

func postgresServer(s *Site, dir string) *server.Server {
	return server.Postgres(&s.host, server.PostgresOptions{Within: dir, Env: s.clockEnv(), Args: postgresArgs})
}

func postgresURL(at string) string { return "postgres://postgres@" + at + "/postgres?sslmode=disable" }
func mariaURL(at string) string    { return "mysql://root@" + at + "/mysql" }
func sqliteURL(dir string) string  { return "sqlite://" + filepath.Join(dir, "locks.db") }

// tableLocked is how long the fault "table locked" keeps the table locked. Every statement has to
// wait for the end of this time, but the leases are longer.
const tableLocked = 700 * time.Millisecond

// inDatabase returns the function that builds the setup of a Row whose locks are in a database.
func inDatabase(d database) func(*Site) (*setup, error) {
	return built(func(s *Site) *setup {
		dir := s.smallDisk(d.disk.size)
		if d.start == nil {
			return d.inFile(s, dir)
		}
		srv := d.start(s, dir)
		set := s.through([]*server.Server{srv}, func(at []string) string { return d.url(at[0]) })
		alive := func() error { return d.revive(d.admin(srv.Addr()), srv) }
		faults := append(d.serverFaults(srv, dir), s.clockFaults()...)
		if d.kill == killMaria {
			// If its clock is set back during a flush, MariaDB 10.11 aborts: "[FATAL] InnoDB: Long wait
			// (601 seconds) for double-write buffer flush". It may abort again while it recovers.
			faults = slices.DeleteFunc(faults, func(f soak.Fault) bool { return f.Kind == clockSetBack })
		}
		set.faults = append(set.faults, supervised(alive, faults)...)
		set.open = func(ctx context.Context, config string) (driver.Store, error) {
			if err := alive(); err != nil {
				return nil, err
			}
			return Open(ctx, config)
		}
		prepare(d.url(srv.Addr()))
		return set
	})
}

// supervised makes each fault begin with a check, which restarts the server if it has crashed. A
// supervisor would do the same. MariaDB 10.11 crashed by itself in about one of twenty runs.
func supervised(alive func() error, faults []soak.Fault) []soak.Fault {
	for i := range faults {
		start := faults[i].Begin
		faults[i].Begin = func(dice *rand.Rand, on int) (func() error, error) {
			if err := alive(); err != nil {
				return nil, err
			}
			return start(dice, on)
		}
	}
	return faults
}

func (d *database) inFile(s *Site, dir string) *setup {
	disk := dir != ""
	if !disk {
		dir = s.dir
	}
	url := d.url(dir)
	faults := append([]soak.Fault{d.lockTable(url), d.deleteRows(url)}, d.backupFaults(url, dir)...)
	if disk {
		faults = append(faults, d.fill(url, dir, nil))
	}
	for i := 1; i < len(faults); i++ {
		faults[i].On = soak.Targets("disk", 1) // no row can be deleted while the disk is full
	}
	prepare(url)
	return &setup{stages: [][]string{slices.Repeat([]string{url}, s.Workers)}, open: Open, faults: faults}
}

// prepare creates the tables.
func prepare(url string) { must(got(Open(context.Background(), url)).Close()) }

func (d *database) serverFaults(srv *server.Server, dir string) []soak.Fault {
	admin := d.admin(srv.Addr())
	alone := []soak.Fault{d.lockTable(admin), d.deleteRows(admin)}
	switch {
	case dir != "":
		alone = append(alone, d.fill(admin, dir, srv))
	case d.disk.size == 0:
		alone = append(alone, d.fillTable(admin))
	}
	if d.kill == killPostgres {
		alone = append(alone, d.readOnlyPeriod(admin))
	}
	for i := range alone {
		alone[i].On = soak.Targets(serverTarget, 1)
	}
	const grace = 6 * time.Second // the server has to recover, and calls give up after 4.5 s
	return append(alone, faultsOf([]*server.Server{srv}, grace,
		restarted("restart with data", true),
		hit{"immediate shutdown", 1, 300 * time.Millisecond, func(s *server.Server) { must(syscall.Kill(s.Pid(), syscall.SIGQUIT)) }, startAgain},
		stopped(2, 1500*time.Millisecond),
		hit{kind: "connections killed", weight: 5, begin: func(*server.Server) { d.say(admin, d.kill) }},
		backupRestored("data"),
	)...)
}

// lockTable returns a fault in which an administrator locks the table, as a migration or a backup
// does. Nobody else can use the table meanwhile.
func (d *database) lockTable(admin string) soak.Fault {
	return soak.Fault{Kind: "table locked", Last: tableLocked, Grace: 4 * time.Second, Weight: 2, Begin: begin(func(*rand.Rand, int) func() {
		db, _, err := d.open(admin)
		must(err)
		ctx := context.Background()
		conn := got(db.Conn(ctx))
		undo := func() error {
			defer db.Close()
			defer conn.Close()
			return execute(ctx, conn, d.unlock)
		}
		if err := execute(ctx, conn, d.lock); err != nil {
			must(fmt.Errorf("%w, and then %w", err, undo()))
		}
		return func() { must(undo()) }
	})}
}

const rowsDeleted = "rows deleted"

// deleteRows returns a fault in which an administrator deletes all rows, which frees all locks at
// once. The documentation forbids administrators to do that.
func (d *database) deleteRows(admin string) soak.Fault {
	return soak.Fault{Kind: rowsDeleted, Grace: 4 * time.Second, Begin: begin(func(*rand.Rand, int) func() {
		must(d.administer(admin, func(ctx context.Context, conn *sql.Conn) error {
			return execute(ctx, conn, []string{"DELETE FROM " + d.table})
		}))
		return nil
	})}
}

// readOnlyPeriods are two ways in which providers of PostgreSQL forbid writes for a while. After the
// second one, sessions that began meanwhile stay read-only.
var readOnlyPeriods = [][2][]string{
	{
		{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"},
		{"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"},
	}, {
		{"ALTER DATABASE postgres SET default_transaction_read_only = on", killPostgres},
		{"SET default_transaction_read_only = off", "ALTER DATABASE postgres RESET default_transaction_read_only"},
	},
}

// readOnlyPeriod forbids writes for a while.
func (d *database) readOnlyPeriod(admin string) soak.Fault {
	return soak.Fault{Kind: "read-only period", Last: 2 * time.Second, Grace: 6 * time.Second, Weight: 3, Begin: begin(func(dice *rand.Rand, _ int) func() {
		way := readOnlyPeriods[dice.IntN(len(readOnlyPeriods))]
		run := func(statements []string) {
			must(d.administer(admin, func(ctx context.Context, conn *sql.Conn) error { return execute(ctx, conn, statements) }))
		}
		run(way[0])
		return func() { run(way[1]) }
	})}
}
