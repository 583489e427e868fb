package sqlstore_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A listener listens with pgx.
type listener struct {
	dsn   string
	heard *atomic.Int64
}

func (l listener) Listen(ctx context.Context, channel string, ready func(), woken func(string)) error {
	conn, err := pgx.Connect(ctx, l.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	ready()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		l.heard.Add(1)
		woken(n.Payload)
	}
}

func TestNotify(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=300"}})
	var heard atomic.Int64
	open := func(ctx context.Context) (driver.Store, error) {
		db, err := sql.Open("pgx", srv.URL())
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(10)
		s, err := sqlstore.Open(ctx, db, sqlstore.PostgreSQL, sqlstore.Notify(listener{srv.URL(), &heard}))
		return ownPool{s, db}, err
	}
	drivertest.Run(t, drivertest.Harness{Open: open, Slow: true, Parallel: 8})
	if heard.Load() == 0 {
		t.Error("no notification arrived")
	}
}

// A waiter sleeps until the lease of the holder would end. If the holder releases the lock with a
// cool-down, the name is free long before that, so the waiter must be woken.
func TestCoolDownWakesTheFirstWaiter(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	var heard atomic.Int64
	pool, err := sql.Open("pgx", srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	open := func() *sqlstore.Store {
		s, err := sqlstore.Open(t.Context(), pool, sqlstore.PostgreSQL, sqlstore.Notify(listener{srv.URL(), &heard}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	holder, waiter := open(), open()
	if _, err := holder.Acquire(t.Context(), driver.Request{Name: "n", Token: driver.TokenOf("holder"), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := waiter.Wait(ctx, driver.Request{Name: "n", Token: driver.TokenOf("waiter"), TTL: time.Hour}, true)
		waiting <- err
	}()
	eventually(t, "the waiter can be notified", func() bool {
		var more string
		return pool.QueryRow("SELECT more FROM public.padlock_locks WHERE name = 'n' AND more LIKE '%padlock_%'").Scan(&more) == nil
	})
	if _, err := holder.Release(t.Context(), "n", "holder", time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the waiter is notified", func() bool { return heard.Load() > 0 })
	stop()
	if err := <-waiting; err == nil {
		safety.TooEarly(t, "the name was granted although it cools down")
	}
}

// eventually waits until yes returns true.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !yes(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
