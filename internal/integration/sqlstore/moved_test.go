package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/sqlite"
	"github.com/padlock-go/padlock/stores/sqlstore/symfony"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// A moving is an SQLite file of which a copy was made.
type moving struct {
	t          *testing.T
	path, copy string
	db         *sql.DB
}

func newMoving(t *testing.T) *moving {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace files that are open")
	}
	m := &moving{t: t, path: filepath.Join(t.TempDir(), "locks.db")}
	m.copy = m.path + ".copy"
	m.db = m.open()
	return m
}

func (m *moving) open() *sql.DB {
	m.t.Helper()
	db, _, err := sqlite.Open((&url.URL{Scheme: "sqlite", Path: m.path}).String())
	noError(m.t, err)
	m.t.Cleanup(func() { db.Close() })
	return db
}

func (m *moving) backUp() {
	m.t.Helper()
	_, err := m.db.Exec("VACUUM INTO '" + m.copy + "'")
	noError(m.t, err)
}

// replace puts the copy in the place of the file.
func (m *moving) replace() {
	m.t.Helper()
	noError(m.t, errors.Join(os.Remove(m.path+"-wal"), os.Remove(m.path+"-shm"), os.Rename(m.copy, m.path)))
}

func (m *moving) refused(err error) {
	m.t.Helper()
	if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) || !strings.Contains(err.Error(), "was replaced or removed") {
		m.t.Errorf("got %v, want that the file was replaced", err)
	}
}

// TestFileReplaced: after one error, all programs use the file that is there, with locks of both
// stores. A holder of the old file learns that it has lost its lock.
func TestFileReplaced(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *sql.DB) driver.Store{
		"table": func(t *testing.T, db *sql.DB) driver.Store {
			s, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite)
			noError(t, err)
			return s
		},
		"PHP's table": func(t *testing.T, db *sql.DB) driver.Store {
			s, err := symfony.Open(t.Context(), db, sqlstore.SQLite, symfony.Symfony)
			noError(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMoving(t)
			s := open(t, m.db)
			defer s.Close()
			m.backUp()
			noError(t, take(t, s, "held", "old"))
			m.replace()
			m.refused(take(t, s, "name", "first"))
			noError(t, take(t, s, "name", "first"))
			later := open(t, m.open())
			defer later.Close()
			if err := take(t, later, "name", "second"); !errors.Is(err, driver.ErrHeld) {
				safety.TwoHold(t, "two programs have the name: %v", err)
			}
			if _, err := s.Extend(t.Context(), "held", "old", time.Minute); !errors.Is(err, driver.ErrLost) {
				t.Errorf("a lock of the old file: %v", err)
			}
			noError(t, os.Rename(m.path, m.copy))
			for range 2 {
				m.refused(take(t, s, "other", "first"))
			}
			noError(t, os.Rename(m.copy, m.path))
			if err := take(t, s, "name", "second"); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("the file is back: %v", err)
			}
		})
	}
}

// TestFileReplacedMeanwhile: connections of the caller are in use when the file is replaced. Calls
// fail until they are given back, and none of them goes to the old file.
func TestFileReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	s, err := sqlstore.Open(t.Context(), m.db, sqlstore.SQLite)
	noError(t, err)
	defer s.Close()
	locker := padlock.New(s)
	lock, err := locker.Acquire(t.Context(), "data")
	noError(t, err)
	m.backUp()
	tx, err := m.db.BeginTx(t.Context(), nil)
	noError(t, err)
	m.replace()
	m.refused(s.CheckTx(t.Context(), tx, lock))
	for range 3 {
		m.refused(take(t, s, "name", "first"))
	}
	noError(t, tx.Rollback())
	m.refused(take(t, s, "name", "first"))
	noError(t, take(t, s, "name", "first"))
}

// TestFileReplacedUnderWaiter: a waiter gets the name in the file that is there.
func TestFileReplacedUnderWaiter(t *testing.T) {
	t.Parallel()
	for name, pool := range map[string]int{"watched": 3, "polling": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replacedUnderWaiter(t, pool)
		})
	}
}

func replacedUnderWaiter(t *testing.T, pool int) {
	t.Helper()
	m := newMoving(t)
	m.db.SetMaxOpenConns(pool)
	s, err := sqlstore.Open(t.Context(), m.db, sqlstore.SQLite)
	noError(t, err)
	defer s.Close()
	m.backUp()
	noError(t, take(t, s, "name", "holder"))
	locker := padlock.New(s)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // a waiter that stays with the old file begins a new wait after 11 s
	defer cancel()
	got := make(chan error, 1)
	go func() {
		_, err := locker.Acquire(ctx, "name")
		got <- err
	}()
	eventually(t, "it waits", func() bool {
		st, err := s.Inspect(t.Context(), "name")
		noError(t, err)
		return st.Waiters > 0
	})
	m.replace()
	noError(t, <-got)
	later, err := sqlstore.Open(t.Context(), m.open(), sqlstore.SQLite)
	noError(t, err)
	defer later.Close()
	if err := take(t, later, "name", "second"); !errors.Is(err, driver.ErrHeld) {
		safety.TwoHold(t, "two programs have the name: %v", err)
	}
}

// TestSessionsFileReplaced: sessions, too, are in the file that is there.
func TestSessionsFileReplaced(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	s, err := sqlsession.New(m.db, sqlsession.SQLite)
	noError(t, err)
	noError(t, s.CreateTable(t.Context()))
	m.backUp()
	_, err = s.Blobs().Get(t.Context(), "id")
	if !errors.Is(err, sessionstore.ErrNotFound) {
		t.Fatal(err)
	}
	m.replace()
	if _, err = s.Blobs().Get(t.Context(), "id"); err == nil || !strings.Contains(err.Error(), "was replaced or removed") {
		t.Errorf("got %v, want that the file was replaced", err)
	}
	if _, err = s.Blobs().Get(t.Context(), "id"); !errors.Is(err, sessionstore.ErrNotFound) {
		t.Errorf("the call after that: %v", err)
	}
}
