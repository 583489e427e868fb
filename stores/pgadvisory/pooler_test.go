package pgadvisory_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// pgBouncer starts a PgBouncer in front of a server, and returns the URL of the store behind it.
func pgBouncer(t testing.TB, srv *server.Server, mode string) string {
	t.Helper()
	p := server.Start(t, server.Spec{
		Name: "pgbouncer", Package: "pgbouncer", Binary: []string{"pgbouncer", "/usr/sbin/pgbouncer"}, RunAs: "postgres",
		Prepare: func(_ context.Context, p server.Place) error {
			host, port, err := net.SplitHostPort(srv.Addr())
			if err != nil {
				return err
			}
			return p.Write("pgbouncer.ini", fmt.Appendf(nil, `[databases]
postgres = host=%[1]s port=%[2]s dbname=postgres user=postgres
alias = host=%[1]s port=%[2]s dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
auth_type = any
pool_mode = %s
max_client_conn = 500
default_pool_size = 200
unix_socket_dir =
`, host, port, p.Port, mode))
		},
		Args: func(p server.Place) []string { return []string{p.Path("pgbouncer.ini")} },
		Ready: func(ctx context.Context, p server.Place) error {
			conn, err := pgx.Connect(ctx, "postgres://postgres@"+p.Addr()+"/postgres?sslmode=disable")
			if err == nil {
				err = conn.Close(ctx)
			}
			return err
		},
	})
	return "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
}

// In transaction mode, advisory locks exclude nobody. The store refuses such a pooler, whether the
// pool is idle or other clients use it.
func TestTransactionMode(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	url := pgBouncer(t, srv, "transaction")
	for range 3 {
		s, err := open(t.Context(), url)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "pool_mode=session") || !strings.Contains(err.Error(), "sqlstore") {
			t.Errorf("a pooler in transaction mode: %v", err)
		}
	}
	for range 5 {
		conn := connect(t, url+"&default_query_exec_mode=simple_protocol")
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := open(t.Context(), url, pgadvisory.Lazy()); err != nil {
		t.Error(err)
	} else if _, err := s.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a lazy store behind a pooler in transaction mode: %v", err)
		s.Close()
	} else {
		s.Close()
	}
}

// In session mode the store works as without a pooler.
func TestSessionMode(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: many})
	url := pgBouncer(t, srv, "session")
	drivertest.Run(t, drivertest.Harness{
		Open:      func(ctx context.Context) (driver.Store, error) { return open(ctx, url) },
		Anonymous: true, Slow: true, Parallel: 8,
	})
	found, err := mustOpen(t, url).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Name == "pooler" && !strings.Contains(f.Value, "session") {
			t.Errorf("the pooler was not noticed: %+v", f)
		}
	}
}
