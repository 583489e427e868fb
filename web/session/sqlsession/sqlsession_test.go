package sqlsession_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/web/session"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

func open(t *testing.T) (*fakeDB, *sqlsession.Store) {
	t.Helper()
	fake := &fakeDB{rows: make(map[string]*fakeRow)}
	db := sql.OpenDB(fake)
	t.Cleanup(func() { db.Close() })
	s, err := sqlsession.New(db, sqlsession.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fake, s
}

func TestContract(t *testing.T) {
	_, s := open(t)
	sessiontest.Run(t, sessiontest.Harness{Open: func() (sessionstore.Store, error) { return s, nil }})
}

func TestSweep(t *testing.T) {
	fake, s := open(t)
	for key, ttl := range map[string]time.Duration{"short": time.Millisecond, "long": time.Hour, "ever": 0} {
		if _, err := s.Commit(t.Context(), key, sessionstore.Change{Create: true, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	for swept := int64(0); swept == 0; {
		var err error
		if swept, err = s.Sweep(t.Context()); err != nil || swept > 1 {
			t.Fatal(swept, err)
		}
	}
	if len(fake.rows) != 2 || fake.rows["short"] != nil {
		t.Errorf("left: %v", fake.rows)
	}
}

// TestARowMadeAgainIsAnother: if a row is deleted and made again, it has a different version.
func TestARowMadeAgainIsAnother(t *testing.T) {
	_, s := open(t)
	blobs := s.Blobs()
	ctx := t.Context()
	if done, _, err := blobs.Swap(ctx, "k", nil, []byte("a"), 0); !done || err != nil {
		t.Fatal(done, err)
	}
	old, err := blobs.Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	blobs.Remove(ctx, "k", nil)
	blobs.Swap(ctx, "k", nil, []byte("a"), 0)
	if done, now, err := blobs.Swap(ctx, "k", &old, []byte("b"), 0); done || now == nil || err != nil {
		t.Errorf("%v %v %v", done, now, err)
	}
	if done, err := blobs.Remove(ctx, "k", &old); done || err != nil {
		t.Errorf("%v %v", done, err)
	}
}

func TestStatements(t *testing.T) {
	db := sql.OpenDB(&fakeDB{})
	defer db.Close()
	for _, c := range []struct {
		d     sqlsession.Dialect
		table string
		want  []string
	}{
		{sqlsession.Postgres, "app.sessions", []string{"CREATE TABLE IF NOT EXISTS app.sessions (", "CREATE INDEX IF NOT EXISTS sessions_expires ON app.sessions ("}},
		{sqlsession.SQLite, "main.sessions", []string{"CREATE TABLE IF NOT EXISTS main.sessions (", "CREATE INDEX IF NOT EXISTS main.sessions_expires ON sessions ("}},
		{sqlsession.MySQL, "sessions", []string{"CREATE TABLE IF NOT EXISTS sessions ("}},
	} {
		s, err := sqlsession.New(db, c.d, sqlsession.Table(c.table))
		if err != nil {
			t.Fatal(err)
		}
		got := s.Schema()
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%v: %q", c.d, got)
		}
	}
	for _, bad := range []string{"", "a b", "a;drop", "a.b.c", "1a", `a"`, strings.Repeat("a", 60)} {
		if _, err := sqlsession.New(db, sqlsession.MySQL, sqlsession.Table(bad)); err == nil {
			t.Errorf("table %q is allowed", bad)
		}
	}
	if _, err := sqlsession.New(db, sqlsession.Dialect(0)); err == nil {
		t.Error("no dialect, no error")
	}
}

// TestNumberedPlaceholders checks the text of the statements for PostgreSQL.
func TestNumberedPlaceholders(t *testing.T) {
	fake := &fakeDB{}
	db := sql.OpenDB(fake)
	defer db.Close()
	s, err := sqlsession.New(db, sqlsession.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	s.Blobs().Remove(context.Background(), "k", &sessionstore.Blob{Tag: "7"})
	const want = "DELETE FROM padlock_sessions WHERE id = $1 AND version = $2 AND "
	if len(fake.seen) != 1 || !strings.HasPrefix(fake.seen[0], want) {
		t.Errorf("%q", fake.seen)
	}
}

// TestBrokenOff: a statement that the database undid is run again, up to a bound. A statement that
// may have taken effect is not run again.
func TestBrokenOff(t *testing.T) {
	fake, s := open(t)
	ctx := t.Context()
	deadlock := errors.New("Error 1213 (40001): Deadlock found when trying to get lock")
	fake.fail = []error{stateError("40001"), stateError("40P01"), deadlock}
	if _, err := s.Commit(ctx, "k", sessionstore.Change{Create: true}); err != nil || len(fake.fail) > 0 {
		t.Error(err)
	}
	fake.fail = []error{deadlock}
	if _, err := s.Load(ctx, "k"); err != nil || len(fake.fail) > 0 {
		t.Error(err)
	}
	for _, c := range []struct {
		failure error
		left    int
	}{{stateError("57014"), 999}, {errors.New("connection reset"), 999}, {deadlock, 1000 - 101}} {
		fake.fail = slices.Repeat([]error{c.failure}, 1000)
		if _, err := s.Blobs().Remove(ctx, "k", nil); !errors.Is(err, c.failure) || len(fake.fail) != c.left {
			t.Errorf("%v: %v, %d failures left, want %d", c.failure, err, len(fake.fail), c.left)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Blobs().Remove(over, "k", nil); err == nil {
		t.Error("no error after the context's end")
	}
}

func TestKeysThatWouldBeChanged(t *testing.T) {
	fake, s := open(t)
	for _, key := range []string{"é", "\x00", "k ", "k\n", "\xff", "\x7f", strings.Repeat("k", 256)} {
		if _, err := s.Commit(t.Context(), key, sessionstore.Change{Create: true}); !errors.Is(err, session.ErrKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := s.Commit(t.Context(), strings.Repeat("~", 255), sessionstore.Change{Create: true}); err != nil || len(fake.rows) != 1 {
		t.Errorf("%v, %d rows", err, len(fake.rows))
	}
}
