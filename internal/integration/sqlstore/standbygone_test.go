package sqlstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// A synchronous standby that is gone keeps each commit waiting. A holder keeps its lease, and a try
// that failed meanwhile is undone when commits work again.
func TestSynchronousStandbyGone(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	db, _, err := postgres.Open(srv.URL())
	noError(t, err)
	defer db.Close()
	open := func() *padlock.Locker {
		s, err := fromURL(t.Context(), srv.URL(), postgres.Opener())
		noError(t, err)
		l := padlock.New(s)
		t.Cleanup(func() { l.Close(context.Background()) })
		return l
	}
	a, b, c := open(), open(), open()
	server.Execute(t, db, "CREATE TABLE probe (n int)")
	held, err := a.TryAcquire(t.Context(), "held", padlock.TTL(30*time.Second))
	noError(t, err)
	before, err := c.TryAcquire(t.Context(), "new") // otherwise the try hangs before it takes the name
	noError(t, err)
	noError(t, before.Release())
	set := func(names string) {
		server.Execute(t, db, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		server.Execute(t, db, "SELECT pg_reload_conf()")
		within(t, "the setting is there", func() bool { return value(t, db, "SHOW synchronous_standby_names") == names })
	}
	set("gone")
	within(t, "commits hang", func() bool { // the checkpointer reads the setting later than the others
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(ctx, "INSERT INTO probe VALUES (1)")
		return err != nil
	})
	begun := time.Now()
	if _, err := b.TryAcquire(t.Context(), "new", padlock.TTL(time.Minute)); err == nil || errors.Is(err, padlock.ErrHeld) {
		t.Errorf("a try while commits hang: %v", err)
	}
	if d := time.Since(begun); d > 30*time.Second { // three requests of 4.5 s
		t.Errorf("the try took %v", d)
	}
	set("")
	begun = time.Now()
	within(t, "the next grant", func() bool {
		_, err := c.TryAcquire(t.Context(), "new")
		return err == nil
	})
	if d := time.Since(begun); d > 30*time.Second { // the lease of the try is a minute
		t.Errorf("the next grant came after %v", d)
	}
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("the holder of before: %v", err)
	}
}
