package advisory_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
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
	return driver.Request{Name: name, Token: driver.TokenOf(rand.Text()), TTL: time.Minute, Holder: driver.Holder{Host: "web-3", PID: 4121, Label: "report.sh"}}
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
	safety.Refused(t, err, r.Name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire of %q, want a HeldError: %v", r.Name, err)
	}
	return held
}

func release(t testing.TB, s driver.Store, r driver.Request) {
	t.Helper()
	if out, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0); err != nil || out != driver.OutcomeReleased {
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

// run carries out statements.
func run(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
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
