package sqlstore_test

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/sqlstore"
)

// A listener listens with pgx.
type listener struct {
	dsn   string
	heard *atomic.Int64
}

func (l listener) Listen(ctx context.Context, channels []string, ready func(), woken func(string)) error {
	conn, err := pgx.Connect(ctx, l.dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN "+strings.Join(channels, "; LISTEN ")); err != nil {
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
