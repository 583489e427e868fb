package pgadvisory

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// The server refuses a demotion, before it has changed the lock or after that. The holder learns
// which mode its hold has, and keeps the hold and the connection. The test changes a statement of
// the package, so no other test runs at the same time.
func TestRefusedDemotion(t *testing.T) {
	srv := server.SharedPostgres(t)
	config, err := pgx.ParseConfig(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	const fails = "1 / (extract(epoch FROM clock_timestamp())::int * 0)" // only when it is run
	old := demote
	defer func() { demote = old }()
	for _, late := range []bool{false, true} {
		if demote.sql = old.sql + ", " + fails; !late {
			demote.sql = strings.Replace(old.sql, "SELECT ", "SELECT "+fails+", ", 1)
		}
		a, errA := Open(t.Context(), config)
		b, errB := Open(t.Context(), config)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		request := func() driver.Request {
			return driver.Request{Name: "job", Token: rand.Text(), TTL: time.Minute}
		}
		r := request()
		if _, err := a.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Shared = true
		if _, err := a.Convert(t.Context(), r); (err == nil) != late {
			t.Errorf("late %v: the demotion: %v", late, err)
		}
		other := request()
		other.Shared = true
		if _, err := b.Acquire(t.Context(), other); (err == nil) != late {
			t.Errorf("late %v: another reader: %v", late, err)
		}
		if _, err := b.Acquire(t.Context(), request()); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("late %v: a writer: %v", late, err)
		}
		if out, err := a.Release(t.Context(), r.Name, r.Token, 0); out != driver.OutcomeReleased || err != nil {
			t.Errorf("late %v: Release: %v, %v", late, out, err)
		}
		a.Close()
		b.Close()
	}
}
