package pages

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// The functions of this file are on pages that say what they lose. The tests show it.

func withAdvisoryLock(ctx context.Context, db *sql.DB, name string, work func(context.Context) error) error {
	conn, err := db.Conn(ctx) // lock and unlock must use one connection
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", name)
	return work(ctx)
}

// openPostgres opens a database as a program does that has a pooler in front of it.
func openPostgres(t *testing.T, srv *server.Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", srv.URL()+"&default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A lock excludes a second caller that uses the server directly. In transaction mode, PgBouncer
// gives both callers the same session, which has the lock already.
func TestTenLinesBehindAPooler(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	for _, c := range []struct {
		srv  *server.Server
		both bool
	}{{srv, false}, {server.PgBouncer(t, srv, "transaction"), true}} {
		first, second := openPostgres(t, c.srv), openPostgres(t, c.srv)
		both := false
		err := withAdvisoryLock(t.Context(), first, "job", func(ctx context.Context) error {
			wait := time.Second
			if c.both {
				wait = time.Minute // the second caller gets the lock, even on a slow machine
			}
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			err := withAdvisoryLock(ctx, second, "job", func(context.Context) error { both = true; return nil })
			if !both && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the second caller: %v", err)
			}
			return nil
		})
		if err != nil || both != c.both {
			safety.TwoHold(t, "%v; both have the lock: %v, want %v", err, both, c.both)
		}
	}
}

// The server ends the session of a holder. Its work goes on, and another caller has the lock.
func TestTenLinesAfterALostConnection(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	first, second := openPostgres(t, srv), openPostgres(t, srv)
	both := false
	err := withAdvisoryLock(t.Context(), first, "job", func(ctx context.Context) error {
		if _, err := second.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"); err != nil {
			return err
		}
		return withAdvisoryLock(ctx, second, "job", func(context.Context) error {
			both = true
			return ctx.Err() // of the first caller
		})
	})
	if err != nil || !both {
		t.Errorf("%v; both work: %v", err, both)
	}
}

// A waiter has a snapshot, for whose end an index is built CONCURRENTLY waits.
func TestTenLinesHoldUpAnIndex(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	db, admin := openPostgres(t, srv), openPostgres(t, srv)
	if _, err := admin.ExecContext(t.Context(), "CREATE TABLE t (a int)"); err != nil {
		t.Fatal(err)
	}
	waits, stop := context.WithCancel(t.Context())
	waiter := make(chan error, 1)
	err := withAdvisoryLock(t.Context(), db, "job", func(ctx context.Context) error {
		go func() {
			waiter <- withAdvisoryLock(waits, db, "job", func(context.Context) error { return nil })
		}()
		if err := oneWaits(ctx, admin, "advisory"); err != nil {
			return err
		}
		building, giveUp := context.WithCancel(ctx)
		built := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(building, "CREATE INDEX CONCURRENTLY i ON t (a)")
			built <- err
		}()
		err := oneWaits(ctx, admin, "virtualxid")
		giveUp()
		if err := <-built; err == nil {
			t.Error("the index was built beside a waiter")
		}
		return err
	})
	stop()
	<-waiter // its error says nothing: it may have had the lock before stop
	if err != nil {
		t.Error(err)
	}
}

// oneWaits returns when a session waits for a lock of this type.
func oneWaits(ctx context.Context, db *sql.DB, locktype string) error {
	for waiting := 0; waiting == 0; <-time.After(10 * time.Millisecond) {
		row := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = $1 AND NOT granted", locktype)
		if err := row.Scan(&waiting); err != nil {
			return err
		}
	}
	return nil
}

// A pool of two connections is used up by a holder and a waiter, and the holder cannot work.
func TestTenLinesUseUpThePool(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	db, admin := openPostgres(t, srv), openPostgres(t, srv)
	db.SetMaxOpenConns(2)
	waits, stop := context.WithCancel(t.Context())
	waiter := make(chan error, 1)
	err := withAdvisoryLock(t.Context(), db, "job", func(ctx context.Context) error {
		go func() {
			waiter <- withAdvisoryLock(waits, db, "job", func(context.Context) error { return nil })
		}()
		if err := oneWaits(ctx, admin, "advisory"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := db.PingContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the holder asks its database: %v", err)
		}
		return nil
	})
	stop()
	<-waiter // its error says nothing: it may have had the lock before stop
	if err != nil {
		t.Error(err)
	}
}
