package adapters

import (
	"context"
	"database/sql"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	mdatabase "github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

var upFiles = fstest.MapFS{
	"1_a.up.sql": {Data: []byte("CREATE TABLE a (x INT);")},
	"2_b.up.sql": {Data: []byte("INSERT INTO a VALUES (1);")},
}

func newMigrate(db *sql.DB) (*migrate.Migrate, error) {
	files, err := iofs.New(upFiles, ".")
	if err != nil {
		return nil, err
	}
	d, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("iofs", files, "sqlite", d)
}

// runMigrate is a server that migrates its database with golang-migrate when it starts.
func runMigrate(p *process) error {
	db, err := database(p.dir)
	if err != nil {
		return err
	}
	defer db.Close()
	p.say("ready")
	p.next()
	open := func() (*migrate.Migrate, error) { return newMigrate(db) }
	if err := migrateAll(context.Background(), p.locker, open); err != nil {
		return err
	}
	p.say("done")
	return nil
}

// Four servers start at the same time. The driver for SQLite of golang-migrate excludes nobody in
// other processes, and yet each migration is applied once.
func TestMigrateOnFourServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) { migrateOnFourServers(t, "migrate", url, dir) })
}

// endless is a source whose migrations never end.
type endless struct{ source.Driver }

func (endless) Close() error                    { return nil }
func (endless) First() (uint, error)            { return 1, nil }
func (endless) Next(version uint) (uint, error) { return version + 1, nil }
func (endless) Prev(version uint) (uint, error) { return version - 1, nil }
func (endless) ReadUp(uint) (io.ReadCloser, string, error) {
	return io.NopCloser(strings.NewReader("SELECT 1;")), "one", nil
}

// losing is a database in which a lock is lost during the first migration.
type losing struct {
	mdatabase.Driver
	lose func()
}

func (d losing) Run(r io.Reader) error {
	d.lose()
	return d.Driver.Run(r)
}

// migrateLocker is the adapter that the interface of golang-migrate asks for: it takes the lock in
// the driver of the database.
type migrateLocker struct {
	mdatabase.Driver
	locker *padlock.Locker
	held   *padlock.Lock
}

func (d *migrateLocker) Lock() (err error) {
	d.held, err = d.locker.Acquire(context.Background(), "migrations:shop", padlock.Wait(500*time.Millisecond))
	return err
}

func (d *migrateLocker) Unlock() error { return d.held.Release() }

// The trap: a driver that keeps a connection of its own, as most drivers do, has it before it asks
// for the lock. If the locks are in the same pool, and that has one connection, the migration waits
// for itself. The way of the page takes the lock before the driver is asked.
func TestMigrateAndTheLocksShareAPool(t *testing.T) {
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
	open := func() (*migrate.Migrate, error) { return newMigrate(db) }
	if m, err := open(); err != nil { // its table is there before the connection is taken
		t.Fatal(m, err)
	}
	conn, err := db.Conn(t.Context()) // as the drivers for PostgreSQL and MySQL do
	if err != nil {
		t.Fatal(err)
	}
	if err := (&migrateLocker{locker: l}).Lock(); err == nil {
		t.Error("the trap of the page is none any more")
	}
	conn.Close()
	if err := migrateAll(t.Context(), l, open); err != nil {
		t.Error(err)
	}
}
