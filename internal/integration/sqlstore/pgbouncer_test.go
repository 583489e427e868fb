package sqlstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// TestPgBouncer runs the suite over URLs on PostgreSQL. Every second store is behind a pooler that
// gives each transaction to another process of the server, where prepared statements and LISTEN do
// not work. The other stores belong to a user that may only SELECT, INSERT, UPDATE and DELETE.
func TestPgBouncer(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	pg := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=300"}})
	limitedPostgres(t, pg.URL(), "public")
	pooler := server.PgBouncer(t, pg, "transaction")
	byURL := func(rawURL string) way {
		return func(ctx context.Context) (driver.Store, error) { return fromURL(ctx, rawURL, postgres.Opener()) }
	}
	open := inTurn(t, byURL(strings.Replace(pg.URL(), "postgres@", "app@", 1)), byURL(pooler.URL()))
	drivertest.Run(t, drivertest.Harness{Open: open, Slow: true, Parallel: 8})
}

// hears reports whether a listener over this URL says that it is ready, and whether it gets a
// notification within d.
func hears(t *testing.T, rawURL string, d time.Duration) (ready, heard bool) {
	t.Helper()
	db, listener, err := postgres.Open(rawURL)
	noError(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err = listener.Listen(ctx, "channel", func() {
		ready = true
		go db.ExecContext(ctx, "SELECT pg_notify('channel', 'a word')")
	}, func(payload string) {
		if payload == "a word" {
			heard = true
			cancel()
		}
	})
	if !heard && ctx.Err() == nil {
		t.Errorf("listen: %v", err)
	}
	return ready, heard
}

// Notifications pass a pooler in session mode only. In other modes, the listener notices that it
// gets none.
func TestNotificationsBehindPgBouncer(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	pg := server.Postgres(t, server.PostgresOptions{})
	for _, c := range []struct {
		to   string
		want bool
	}{
		{pg.URL(), true},
		{server.PgBouncer(t, pg, "session").URL(), true},
		{server.PgBouncer(t, pg, "transaction").URL(), false},
	} {
		patience := 5 * time.Second
		if c.want {
			patience = 30 * time.Second
		}
		ready, heard := hears(t, c.to, patience)
		if ready != c.want || heard != c.want {
			t.Errorf("%s: it says that notifications arrive: %v; they do: %v", strings.TrimPrefix(c.to, "postgres://"), ready, heard)
		}
	}
}
