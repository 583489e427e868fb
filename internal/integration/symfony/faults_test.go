package symfony

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
	srv *server.Server
	d   database
	raw *sql.DB
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server, d database) *bench {
	return &bench{srv: srv, d: d, raw: d.raw(t), Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		there := b.d
		there.rawURL = strings.Replace(there.rawURL, b.srv.Addr(), addr, 1)
		return there.open(ctx, "symfony73", "faults")
	})
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
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(writes),
		Restart:       b.srv.Crash,
		Pause:         b.srv.Freeze,
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
