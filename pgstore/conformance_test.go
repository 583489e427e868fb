package pgstore_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/pgstore"
)

// open opens a store at a URL.
func open(ctx context.Context, url string, opts ...pgstore.Option) (driver.Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	s, err := pgstore.Open(ctx, config, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func mustOpen(t testing.TB, url string, opts ...pgstore.Option) *pgstore.Store {
	t.Helper()
	s, err := open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*pgstore.Store)
}

// limited makes the table, and a user who has four rights on it. It returns the URL of that user.
func limited(t testing.TB, srv *server.Server) string {
	t.Helper()
	statements, err := pgstore.Schema("")
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
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: many})
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return open(ctx, srv.URL(), pgstore.NoFences())
		},
		Anonymous: true,
		Slow:      true,
		Parallel:  16,
	})
}

// A bench is a server with a proxy in front of it for each store.
type bench struct {
	srv  *server.Server
	mu   sync.Mutex
	by   map[driver.Store]*server.Proxy
	made chan *server.Proxy
}

// newBench starts the proxies, because the suite counts the goroutines that start in open.
func newBench(t testing.TB, srv *server.Server) *bench {
	b := &bench{srv: srv, by: map[driver.Store]*server.Proxy{}, made: make(chan *server.Proxy)}
	var wg sync.WaitGroup
	ctx := t.Context()
	wg.Go(func() {
		for ctx.Err() == nil {
			p := server.NewProxy(t, srv.Addr())
			select {
			case b.made <- p:
			case <-ctx.Done():
				p.Close()
			}
		}
	})
	t.Cleanup(wg.Wait)
	return b
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	p := <-b.made
	s, err := open(ctx, strings.Replace(b.srv.URL(), b.srv.Addr(), p.Addr(), 1), pgstore.LossDelay(2*time.Second))
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.by[s] = p
	}
	return s, err
}

func (b *bench) proxy(s driver.Store) *server.Proxy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[s]
}

// changesLock reports whether a request is a Bind message of a statement that takes a lock or
// gives it back.
func changesLock(request []byte) bool {
	return request[0] == 'B' && (bytes.Contains(request, []byte("padlock_take")) || bytes.Contains(request, []byte("padlock_unlock")))
}

func TestFaults(t *testing.T) {
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: many})
	b := newBench(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open:          b.open,
		Anonymous:     true,
		Slow:          true,
		Parallel:      16,
		CutConnection: func(s driver.Store) error { b.proxy(s).Cut(); return nil },
		LoseReply:     func(s driver.Store) error { b.proxy(s).LoseReply(changesLock); return nil },
		Restart: func(keep bool) error {
			srv.Kill()
			srv.Restart(keep)
			return nil
		},
		Pause: func() (func() error, error) {
			srv.Pause()
			return func() error { srv.Resume(); return nil }, nil
		},
	})
}
