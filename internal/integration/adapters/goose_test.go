package adapters

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/padlocktest"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

var migrations = fstest.MapFS{
	"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (x INT);\n")},
	"00002_b.sql": {Data: []byte("-- +goose Up\nINSERT INTO a VALUES (1);\n")},
}

// database opens the database of the migrations. It has one connection, as many programs do it with
// SQLite.
func database(dir string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(10000)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// runMigrations is a server that migrates its database when it starts.
func runMigrations(p *process) error {
	db, err := database(p.dir)
	if err != nil {
		return err
	}
	defer db.Close()
	m, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
	if err != nil {
		return err
	}
	p.say("ready")
	p.next()
	if err := migrateUp(context.Background(), p.locker, m); err != nil {
		return err
	}
	p.say("done")
	return nil
}

// Four servers start at the same time: each migration is applied once, although goose has no lock
// for this database.
func TestGooseOnFourServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) { migrateOnFourServers(t, "goose", url, dir) })
}

func migrateOnFourServers(t *testing.T, role, url, dir string) {
	t.Helper()
	var servers [4]*child
	for i := range servers {
		servers[i] = start(t, role, url, dir)
	}
	for _, s := range servers {
		if got := s.hear(); got != "ready" {
			t.Fatal(got)
		}
	}
	for _, s := range servers {
		s.tell("now")
	}
	for _, s := range servers {
		if got := s.hear(); got != "done" {
			t.Error(got)
		}
	}
	db, err := database(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM a").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// gooseLocker is the adapter that the interface of goose asks for.
type gooseLocker struct {
	locker *padlock.Locker
	held   *padlock.Lock
}

func (g *gooseLocker) SessionLock(ctx context.Context, _ *sql.Conn) (err error) {
	g.held, err = g.locker.Acquire(ctx, "migrations:shop")
	return err
}

func (g *gooseLocker) SessionUnlock(context.Context, *sql.Conn) error { return g.held.Release() }

var _ lock.SessionLocker = (*gooseLocker)(nil)

// The trap: goose takes a connection first and the lock after. If the locks are in the same pool,
// and that has one connection, the migration waits for itself. The way of the page takes the lock
// first.
func TestGooseAndTheLocksShareAPool(t *testing.T) {
	t.Parallel()
	db, err := database(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	l := padlock.New(store)
	defer l.Close(context.Background())
	trap, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithSessionLocker(&gooseLocker{locker: l}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := trap.Up(ctx); err == nil {
		t.Error("the trap of the page is none any more")
	}
	m, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrateUp(t.Context(), l, m); err != nil {
		t.Error(err)
	}
}

// The locks are in the database of the migrations, by connections of their own. PostgreSQL takes the
// parameter that the page adds to the migrations' URL.
func TestGooseAndLocksInOneDatabase(t *testing.T) {
	t.Parallel()
	url := server.Postgres(t, server.PostgresOptions{}).URL()
	db, err := sql.Open("pgx", url+"&client_connection_check_interval=1000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := openLocks(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	m, err := goose.NewProvider(goose.DialectPostgres, db, migrations)
	if err == nil {
		err = migrateUp(t.Context(), l, m)
	}
	if err != nil {
		t.Error(err)
	}
}

// The lock is lost during a migration, or the caller gives up: goose stops.
func TestGooseStops(t *testing.T) {
	t.Parallel()
	for _, want := range []error{padlock.ErrLost, context.Canceled} {
		db, err := database(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		l, script := padlocktest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end := cancel
		if want == padlock.ErrLost {
			end = func() { script.Lose("migrations:shop") }
		}
		second := false
		m, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(
			goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
				end()
				<-ctx.Done()
				return context.Cause(ctx)
			}}, nil),
			goose.NewGoMigration(2, &goose.GoFunc{RunDB: func(context.Context, *sql.DB) error {
				second = true
				return nil
			}}, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := migrateUp(ctx, l, m); !errors.Is(err, want) || second {
			t.Errorf("%v, want %v; the second migration ran: %v", err, want, second)
		}
	}
}
