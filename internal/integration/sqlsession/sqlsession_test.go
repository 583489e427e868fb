package sqlsession_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/session/sessiontest/load"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// A database is a running database for the tests.
type database struct {
	driver, dsn string
	dialect     sqlsession.Dialect
	schema      string // a schema that exists already
}

var databases = map[string]func(testing.TB) database{
	"postgres": func(t testing.TB) database {
		return database{"pgx", server.Postgres(t, server.PostgresOptions{}).URL(), sqlsession.Postgres, "public"}
	},
	// The strictest level that programs set as their default.
	"postgres serializable": func(t testing.TB) database {
		return database{"pgx", server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "default_transaction_isolation=serializable"}}).URL(), sqlsession.Postgres, "public"}
	},
	"mariadb": func(t testing.TB) database {
		return database{"mysql", server.MariaDB(t, "TZ=Europe/Berlin").URL(), sqlsession.MySQL, "mysql"}
	},
	"sqlite": func(t testing.TB) database {
		return database{"sqlite", "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)", sqlsession.SQLite, "main"}
	},
}

// open connects; every call is another pool, as another process has one.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	noError(t, err)
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { db.Close() })
	return db
}

func (d database) store(t testing.TB, db *sql.DB, opts ...sqlsession.Option) *sqlsession.Store {
	t.Helper()
	s, err := sqlsession.New(db, d.dialect, opts...)
	noError(t, err)
	noError(t, s.CreateTable(t.Context()))
	return s
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDatabases starts each database once, and runs all its tests on it.
func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			t.Run("contract", d.contract)
			t.Run("values", d.blobs)
			t.Run("batches", d.batches)
			t.Run("PHP's empty session", d.phpEmpty)
			t.Run("crowd", d.crowd)
			t.Run("swept meanwhile", d.sweptMeanwhile)
			t.Run("created at once", d.createdAtOnce)
			t.Run("refused", d.refused)
			t.Run("another program's table", d.othersTable)
			if d.dialect == sqlsession.MySQL {
				t.Run("autumn", d.autumn)
			}
		})
	}
}

func (d database) contract(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Patience: 2 * time.Minute, Expire: 400 * time.Millisecond, Open: func() (sessionstore.Store, error) {
		return d.store(t, d.open(t), sqlsession.Table(d.schema+".contract")), nil
	}})
}

// crowd has a hundred requests write at once, with locks and without.
func (d database) crowd(t *testing.T) {
	locker := padlock.New(memstore.New())
	t.Cleanup(func() { locker.Close(context.Background()) })
	for name, c := range map[string]struct {
		mode session.Mode
		opts []session.Option
	}{
		"Delta":         {session.Delta, []session.Option{session.Locker(locker)}},
		"Exclusive":     {session.Exclusive, []session.Option{session.Locker(locker)}},
		"without locks": {session.Delta, nil},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(c.opts, session.MaxWait(time.Minute), session.Cookie{Insecure: true})
			m, err := session.New(d.store(t, d.open(t)), opts...)
			noError(t, err)
			srv := httptest.NewServer(load.Handler(m, c.mode))
			defer srv.Close()
			client := load.NewClient(srv.URL, load.CrowdSize)
			defer client.Close()
			noError(t, client.Start(t.Context()))
			load.CheckKept(t, client, load.Set(load.CrowdSize, 0, 0))
			load.CheckCount(t, client, load.Incr(load.CrowdSize), false)
		})
	}
}

// sweptMeanwhile deletes expired rows while other rows are made and changed. Nobody gets an error
// about a deadlock, and nothing is lost.
func (d database) sweptMeanwhile(t *testing.T) {
	s := d.store(t, d.open(t), sqlsession.Table("swept"))
	ctx := t.Context()
	done := make(chan error, 4)
	for i := range cap(done) {
		go func() { done <- makeAndChange(ctx, s, string(rune('a'+i))) }()
	}
	swept, running := int64(0), cap(done)
	for running > 0 || swept < 30*int64(cap(done)) {
		select {
		case err := <-done:
			running--
			if err != nil {
				t.Error(err)
			}
		default:
		}
		if t.Failed() {
			return
		}
		n, err := s.Sweep(ctx)
		noError(t, err)
		swept += n
	}
	for i := range cap(done) {
		rec, err := s.Load(ctx, "kept "+string(rune('a'+i)))
		if err != nil || string(rec.Fields[0].Value) != "30" {
			t.Errorf("%v %v", rec.Fields, err)
		}
	}
}

// makeAndChange makes sessions that expire at once, and counts in another one that does not expire.
func makeAndChange(ctx context.Context, s sessionstore.Store, worker string) error {
	one := []sessionstore.Op{{Kind: sessionstore.OpIncr, Key: "n", Delta: 1}}
	_, err := s.Commit(ctx, "kept "+worker, sessionstore.Change{Create: true, TTL: time.Hour, Ops: one[:0]})
	for i := range 30 {
		_, errShort := s.Commit(ctx, worker+string(rune('A'+i)), sessionstore.Change{Create: true, TTL: time.Millisecond, Ops: one})
		_, errLong := s.Commit(ctx, "kept "+worker, sessionstore.Change{TTL: time.Hour, Ops: one})
		err = errors.Join(err, errShort, errLong)
	}
	return err
}

// refused: if the table is missing, or the caller's context has ended, the error does not say that
// the session does not exist.
func (d database) refused(t *testing.T) {
	none, err := sqlsession.New(d.open(t), d.dialect, sqlsession.Table("none"))
	noError(t, err)
	if _, err := none.Load(t.Context(), "k"); !errors.Is(err, session.ErrUnavailable) || errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("Load without a table: %v", err)
	}
	if _, err := none.Commit(t.Context(), "k", sessionstore.Change{Create: true}); err == nil || errors.Is(err, sessionstore.ErrExists) {
		t.Errorf("Commit without a table: %v", err)
	}
	s := d.store(t, d.open(t))
	_, err = s.Commit(t.Context(), "k", sessionstore.Change{Create: true, TTL: time.Hour})
	noError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Load(over, "k"); !errors.Is(err, session.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Load after its context: %v", err)
	}
	if _, err := s.Commit(over, "k", sessionstore.Change{}); err == nil || errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("Commit after its context: %v", err)
	}
}

// autumn: the hour that a local clock shows twice counts twice.
func (d database) autumn(t *testing.T) {
	db := d.open(t)
	db.SetMaxOpenConns(1) // SET timestamp is for one connection only
	s := d.store(t, db, sqlsession.Table("autumn"))
	at := func(clock time.Time) {
		_, err := db.ExecContext(t.Context(), "SET timestamp = ?", clock.Unix())
		noError(t, err)
	}
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC) // half past two, for the first time
	at(first)
	var local string
	noError(t, db.QueryRowContext(t.Context(), "SELECT TIME(NOW())").Scan(&local))
	if local != "02:30:00" {
		t.Fatalf("the server's clock shows %s", local)
	}
	_, err := s.Commit(t.Context(), "k", sessionstore.Change{Create: true, TTL: 10 * time.Minute})
	noError(t, err)
	at(first.Add(9 * time.Minute))
	if rec, err := s.Load(t.Context(), "k"); err != nil || rec.TTL != time.Minute {
		t.Errorf("after 9 of 10 minutes: %v, %v", rec.TTL, err)
	}
	at(first.Add(time.Hour))
	if _, err := s.Load(t.Context(), "k"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("after an hour: %v", err)
	}
}
