package postgres

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// openListener opens a database over a proxy, and a listener that asks after quiet.
func openListener(t *testing.T, quiet, reply time.Duration) (*listener, *server.Proxy, func(query string, args ...any)) {
	t.Helper()
	srv := server.Postgres(t, server.PostgresOptions{})
	p := server.NewProxy(t, srv.Addr())
	u, err := url.Parse(strings.Replace(srv.URL(), srv.Addr(), p.Addr(), 1))
	if err != nil {
		t.Fatal(err)
	}
	db, hears, err := Opener().Open(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	l := hears.(*listener)
	l.quiet, l.reply = quiet, reply
	return l, p, func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Error(err)
		}
	}
}

// The session of a listener may end at the server while its socket stays open. Listen notices that,
// and returns.
func TestListenerOfADeadSession(t *testing.T) {
	t.Parallel()
	l, p, _ := openListener(t, 10*time.Millisecond, 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := l.Listen(ctx, "channel", p.Strand, func(string) {})
	if err == nil || ctx.Err() != nil {
		t.Errorf("Listen goes on without a session: %v", err)
	}
}

// A listener that has asked the server gets the notifications that arrive later.
func TestQuietListener(t *testing.T) {
	t.Parallel()
	l, _, exec := openListener(t, time.Millisecond, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	heard := ""
	var sender sync.WaitGroup
	defer sender.Wait()
	err := l.Listen(ctx, "channel", func() {
		sender.Go(func() {
			exec(`DO $$ BEGIN
			WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE query = '-- ping') LOOP
				PERFORM pg_sleep(0.001), pg_stat_clear_snapshot();
			END LOOP;
			NOTIFY channel, 'a word';
		END $$`)
		})
	}, func(payload string) {
		heard = payload
		cancel()
	})
	if heard != "a word" {
		t.Errorf("heard %q, and %v", heard, err)
	}
}
