package sqlstore_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A bench is a server with a proxy before it for each store, and what the suite may do to them.
type bench struct {
	t   testing.TB
	srv *server.Server
	d   database
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server, d database) *bench {
	return &bench{t: t, srv: srv, d: d, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		there := b.d
		there.dsn = strings.Replace(there.dsn, b.srv.Addr(), addr, 1)
		return there.open(ctx)
	})
}

// writes returns a function that reports whether a request carries out a change.
func writes() func([]byte) bool {
	return func(request []byte) bool {
		return bytes.Contains(request, []byte("SET version")) || bytes.Contains(request, []byte("SET l.version"))
	}
}

// harness cuts connections and loses replies. In tier 2 the server is also killed and stopped.
func (b *bench) harness() drivertest.Harness {
	h := drivertest.Harness{
		Open: b.open, Slow: true, Parallel: 8,
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(writes()),
	}
	if server.IsThorough() {
		h.Restart, h.Pause = b.srv.Crash, b.srv.Freeze
	}
	return h
}

// TestFaults runs the suite with the faults that a server can have: it is killed, stopped or cut
// off, or its replies are lost. MariaDB's part of tier 1 is TestContract.
func TestFaults(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		srv := server.Postgres(t, server.PostgresOptions{})
		// Each request has the text of its statement, so that the proxy can choose one.
		d := database{"pgx", srv.URL() + "&default_query_exec_mode=exec", sqlstore.PostgreSQL}
		drivertest.Run(t, newBench(t, srv, d).harness())
	})
	t.Run("mariadb", func(t *testing.T) {
		server.Thorough(t)
		t.Parallel()
		srv := server.MariaDB(t)
		drivertest.Run(t, newBench(t, srv, database{"mysql", srv.URL() + "?interpolateParams=true", sqlstore.MySQL}).harness())
	})
}
