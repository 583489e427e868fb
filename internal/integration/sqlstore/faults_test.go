package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/sqlstore"
)

// A bench is a server with a proxy before it for each store, and what the suite may do to them.
type bench struct {
	t    testing.TB
	srv  *server.Server
	d    database
	mu   sync.Mutex
	by   map[driver.Store]*server.Proxy
	made chan *server.Proxy
}

// newBench puts proxies before a server. The DSN of d contains the address of that server.
func newBench(t testing.TB, srv *server.Server, d database) *bench {
	b := &bench{t: t, srv: srv, d: d, by: map[driver.Store]*server.Proxy{}, made: make(chan *server.Proxy)}
	var wg sync.WaitGroup
	ctx := t.Context() // the suite counts the goroutines that begin in open, so proxies begin here
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
	there := b.d
	there.dsn = strings.Replace(there.dsn, b.srv.Addr(), p.Addr(), 1)
	s, err := there.open(ctx)
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

// writes returns a function that reports whether a request carries out a change.
func writes() func([]byte) bool {
	return func(request []byte) bool {
		return bytes.Contains(request, []byte("SET version")) || bytes.Contains(request, []byte("SET l.version"))
	}
}

func (b *bench) harness() drivertest.Harness {
	return drivertest.Harness{
		Open: b.open, Slow: true, Parallel: 8,
		CutConnection: func(s driver.Store) error { b.proxy(s).Cut(); return nil },
		LoseReply:     func(s driver.Store) error { b.proxy(s).LoseReply(writes()); return nil },
		Restart: func(keep bool) error {
			b.srv.Kill()
			b.srv.Restart(keep)
			return nil
		},
		Pause: func() (func() error, error) {
			b.srv.Pause()
			return func() error { b.srv.Resume(); return nil }, nil
		},
	}
}

// TestFaults runs the suite with the faults that a server can have: it is killed, stopped or cut
// off, or its replies are lost.
func TestFaults(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		srv := server.Postgres(t, server.PostgresOptions{})
		// Each request has the text of its statement, so that the proxy can choose one.
		d := database{"pgx", srv.URL() + "&default_query_exec_mode=simple_protocol", sqlstore.PostgreSQL}
		drivertest.Run(t, newBench(t, srv, d).harness())
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		srv := server.MariaDB(t)
		drivertest.Run(t, newBench(t, srv, database{"mysql", srv.URL() + "?interpolateParams=true", sqlstore.MySQL}).harness())
	})
}

// TestOneConnection: SQLite in a pool of one, as it is usual.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	open := func(ctx context.Context) (driver.Store, error) {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		s, err := sqlstore.Open(ctx, db, sqlstore.SQLite)
		return ownPool{s, db}, err
	}
	drivertest.Run(t, drivertest.Harness{Open: open, Slow: true, Parallel: 8})
}
