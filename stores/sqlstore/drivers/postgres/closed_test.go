package postgres

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// TestClosedConnectionsLeaveThePool: a connection that pgx has closed is not passed on to the next
// caller. With a small pool and many such connections, a statement would otherwise find three of
// them one after the other, and fail. Here the server ends connections; pgx also closes one if the
// caller of its statement gives up.
func TestClosedConnectionsLeaveThePool(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{})
	for name, mode := range map[string]string{"default": "", "simple": "&default_query_exec_mode=simple_protocol"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(srv.URL() + mode)
			if err != nil {
				t.Fatal(err)
			}
			db, _, err := Opener().Open(u, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			endConnection(t, db)
			if st := db.Stats(); st.OpenConnections != 0 {
				t.Errorf("after the end of its only connection, the pool has %+v", st)
			}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for ctx.Err() == nil {
						endConnection(t, db)
					}
				})
			}
			for range 20 {
				var one int
				if err := db.QueryRowContext(t.Context(), "SELECT 1").Scan(&one); err != nil {
					t.Errorf("a statement next to others whose connections end: %v", err)
				}
			}
			stop()
			all.Wait()
		})
	}
}

// endConnection runs a statement that ends its own connection.
func endConnection(t *testing.T, db *sql.DB) {
	if _, err := db.ExecContext(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())"); err == nil {
		t.Error("the server has not ended the connection")
	}
}
