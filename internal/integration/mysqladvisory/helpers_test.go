package mysqladvisory_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// soon is how long a test waits for an event that has to happen.
const soon = time.Minute

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: rand.Text(), TTL: time.Minute, Holder: driver.Holder{Host: "web-3", PID: 4121, Label: "report.sh"}}
}

func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire of %q: %v", r.Name, err)
	}
	return g
}

func refused(t testing.TB, s driver.Store, r driver.Request) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire of %q, which is held: %v", r.Name, err)
	}
	return held
}

func release(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	if out, err := s.Release(t.Context(), r.Name, r.Token, 0); err != nil || out != driver.OutcomeReleased {
		t.Fatalf("Release of %q: %v, %v", r.Name, out, err)
	}
}

// until waits until yes returns true.
func until(t testing.TB, what string, yes func() bool) {
	t.Helper()
	end := time.After(soon)
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for !yes() {
		select {
		case <-pause.C:
		case <-end:
			t.Fatalf("%s: not within %v", what, soon)
		}
	}
}

// eventually repeats the request until the name is granted.
func eventually(t testing.TB, s driver.Store, name string) (r driver.Request, g driver.Grant) {
	t.Helper()
	until(t, "a grant of "+name, func() bool {
		r = request(name)
		var err error
		g, err = s.Acquire(t.Context(), r)
		return err == nil
	})
	return r, g
}

// ends waits for the end of a Bound.
func ends(t testing.TB, bound context.Context) {
	t.Helper()
	select {
	case <-bound.Done():
	case <-time.After(soon):
		t.Fatal("Grant.Bound has not ended")
	}
	if err := context.Cause(bound); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the cause is %v", err)
	}
}

// admin returns a pool of an administrator.
func admin(t testing.TB, srv *server.Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", srv.URL())
	noError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// run carries out statements as an administrator.
func run(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	noError(t, err)
	defer db.Close()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// ask reads one value.
func ask[T any](t testing.TB, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// lockOf returns the server's name of a lock, and the session that has it.
func lockOf(t testing.TB, dsn, name string) (lock string, session int64) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	noError(t, err)
	defer db.Close()
	if err := db.QueryRow("SELECT lock_name, COALESCE(IS_USED_LOCK(lock_name), 0) FROM padlock_fences WHERE name = '"+name+"'").Scan(&lock, &session); err != nil {
		t.Fatal(err)
	}
	return lock, session
}

// waiting counts the sessions of a database that wait for a lock in the server.
func waiting(t testing.TB, dsn string) int {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	noError(t, err)
	defer db.Close()
	return ask[int](t, db, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND db = DATABASE()")
}

// queued waits until n sessions are in the server's queue.
func queued(t testing.TB, dsn string, n int) {
	t.Helper()
	until(t, "waiters in the queue", func() bool { return waiting(t, dsn) >= n })
}
