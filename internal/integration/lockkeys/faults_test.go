package lockkeys

import (
	"bytes"
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
)

// A bench is a server with a proxy before it for each store, and what the suite may do to them.
type bench struct {
	srv  *server.Server
	d    database
	raw  *sql.DB
	mu   sync.Mutex
	by   map[driver.Store]*server.Proxy
	made chan *server.Proxy
}

// newBench makes the proxies outside of open, because the suite counts the goroutines that begin in
// open.
func newBench(t testing.TB, srv *server.Server, d database) *bench {
	b := &bench{srv: srv, d: d, raw: d.raw(t), by: map[driver.Store]*server.Proxy{}, made: make(chan *server.Proxy)}
	ctx := t.Context()
	var wg sync.WaitGroup
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
	there.rawURL = strings.Replace(there.rawURL, b.srv.Addr(), p.Addr(), 1)
	s, err := there.open(ctx, "symfony73", "faults")
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by[s] = p
	return s, nil
}

func (b *bench) proxy(s driver.Store) *server.Proxy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[s]
}

// writes reports whether a request writes to the table.
func writes(request []byte) bool {
	for _, verb := range []string{"INSERT INTO", "UPDATE faults", "DELETE FROM"} {
		if bytes.Contains(request, []byte(verb)) {
			return true
		}
	}
	return false
}

// foreign takes a name as PHP does.
func (b *bench) foreign(name string) (func() error, error) {
	id, token := sha256Hex(name), newToken()
	if _, err := b.raw.Exec(b.d.sql("INSERT INTO faults (key_id, key_token, key_expiration) VALUES (?, ?, {now} + 300)"), id, token); err != nil {
		return nil, err
	}
	return func() error {
		_, err := b.raw.Exec(b.d.sql("DELETE FROM faults WHERE key_id = ? AND key_token = ?"), id, token)
		return err
	}, nil
}

func (b *bench) harness() drivertest.Harness {
	return drivertest.Harness{
		Open: b.open, Slow: true, Parallel: 8, Anonymous: true, Foreign: b.foreign,
		CutConnection: func(s driver.Store) error { b.proxy(s).Cut(); return nil },
		LoseReply:     func(s driver.Store) error { b.proxy(s).LoseReply(writes); return nil },
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
	benches := map[string]func(t *testing.T) *bench{
		"postgres": func(t *testing.T) *bench {
			srv := server.Postgres(t, server.PostgresOptions{})
			d := onPostgres(srv)
			d.rawURL += "&default_query_exec_mode=simple_protocol" // each request has the text of its statement
			return newBench(t, srv, d)
		},
		"mariadb": func(t *testing.T) *bench {
			srv := server.MariaDB(t)
			return newBench(t, srv, onMariaDB(srv))
		},
	}
	var wg sync.WaitGroup
	for name, start := range benches {
		wg.Go(func() { t.Run(name, func(t *testing.T) { drivertest.Run(t, start(t).harness()) }) })
	}
	wg.Wait()
}
