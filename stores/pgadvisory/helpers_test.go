package pgadvisory_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// advisoryLocks are those of a test's database.
const advisoryLocks = "pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"

// soon is the longest time that a test waits for an event that has to happen.
const soon = time.Minute

func request(name string) driver.Request {
	return driver.Request{Name: name, Token: rand.Text(), TTL: time.Minute}
}

func reader(name string) driver.Request {
	r := request(name)
	r.Shared = true
	return r
}

// take acquires a name that is free.
func take(t testing.TB, s driver.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire of %q: %v", r.Name, err)
	}
	return g
}

// refused checks that a name is held.
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

// untilTrue calls yes again and again, until it returns true.
func untilTrue(t testing.TB, what string, yes func() bool) {
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

// queued waits until somebody is in the server's queue.
func queued(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	untilTrue(t, "a waiter in the queue", func() bool {
		return readValue[int](t, conn, "SELECT count(*) FROM "+advisoryLocks+" AND NOT granted") > 0
	})
}

// untilGranted tries the name again and again, until it is granted.
func untilGranted(t testing.TB, s driver.Store, name string) (r driver.Request, g driver.Grant) {
	t.Helper()
	untilTrue(t, "a grant of "+name, func() bool {
		r = request(name)
		var err error
		g, err = s.Acquire(t.Context(), r)
		return err == nil
	})
	return r, g
}

// awaitEnd returns when bound has ended, and checks the cause.
func awaitEnd(t testing.TB, bound context.Context) {
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

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// newUser makes a user with a name of its own, because tests share the server. It returns the name,
// and the URL of the test's database for that user.
func newUser(t testing.TB, srv *server.Server, rights string) (name, url string) {
	t.Helper()
	name = "u" + strings.ToLower(rand.Text())
	execute(t, connect(t, srv.URL()), "CREATE ROLE "+name+" LOGIN "+rights)
	return name, strings.Replace(srv.URL(), "postgres@", name+"@", 1)
}

// readValue reads one value.
func readValue[T any](t testing.TB, conn *pgx.Conn, query string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// timeOf returns the duration of a call of f, in nanoseconds.
func timeOf(f func()) int64 {
	began := time.Now()
	f()
	return time.Since(began).Nanoseconds()
}
