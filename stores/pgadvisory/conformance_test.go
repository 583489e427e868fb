package pgadvisory_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// open opens a store at a URL.
func open(ctx context.Context, url string, opts ...pgadvisory.Option) (driver.Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	s, err := pgadvisory.Open(ctx, config, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func mustOpen(t testing.TB, url string, opts ...pgadvisory.Option) *pgadvisory.Store {
	t.Helper()
	s, err := open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*pgadvisory.Store)
}

// limited makes the table, and a user who has four rights on it. It returns the URL of that user.
func limited(t testing.TB, srv *server.Server) string {
	t.Helper()
	statements, err := pgadvisory.Schema("")
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, srv.URL())
	for _, sql := range append(statements, "CREATE ROLE app LOGIN", "GRANT SELECT, INSERT, UPDATE, DELETE ON padlock_fences TO app") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(srv.URL(), "postgres@", "app@", 1)
}

// many has the arguments for a server whose suite opens a large number of stores at once.
var many = []string{"-c", "max_connections=400"}

// TestContract runs the suite as a user with four rights on a table that an administrator made.
func TestContract(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: many})
	url := limited(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open:      func(ctx context.Context) (driver.Store, error) { return open(ctx, url) },
		Anonymous: true,
		Slow:      true,
		Parallel:  16,
	})
}

func TestContractWithoutFences(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: many})
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return open(ctx, srv.URL(), pgadvisory.NoFences())
		},
		Anonymous: true,
		Slow:      true,
		Parallel:  16,
	})
}

// A bench is a server with a proxy in front of it for each store.
type bench struct {
	srv *server.Server
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server) *bench {
	return &bench{srv: srv, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) openStore(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		return open(ctx, strings.Replace(b.srv.URL(), b.srv.Addr(), addr, 1), pgadvisory.LossDelay(7*time.Second))
	})
}

// changesLock reports whether a request is a Bind message of a statement that takes a lock or
// gives it back.
func changesLock(request []byte) bool {
	return request[0] == 'B' && (bytes.Contains(request, []byte("padlock_take")) || bytes.Contains(request, []byte("padlock_unlock")))
}

func TestFaults(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: many})
	b := newBench(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open:          b.openStore,
		Anonymous:     true,
		Slow:          true,
		Parallel:      16,
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(changesLock),
		Restart:       srv.Crash,
		Pause:         srv.Freeze,
	})
}
