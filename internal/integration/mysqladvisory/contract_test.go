package mysqladvisory_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// patient are the options of a store that gives a statement 4 s instead of 3 s.
var patient = []mysqladvisory.Option{mysqladvisory.LossDelay(20 * time.Second), mysqladvisory.SessionTimeout(40 * time.Second)}

// patiently has the parameters of a URL with the same meaning.
const patiently = "loss-delay=20s&session-timeout=40s"

func TestContract(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	drivertest.Run(t, drivertest.Harness{
		Open:     func(ctx context.Context) (driver.Store, error) { return open(ctx, dsn, patient...) },
		Slow:     true,
		Parallel: 8,
	})
}

func TestContractWithoutFences(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return fromURL(ctx, dsn, "fences=no&"+patiently)
		},
		Anonymous: true,
		Slow:      true,
		Parallel:  8,
	})
}

// The locks of Symfony's layout belong to the whole server, and programs other than padlock take
// them.
func TestContractOfSymfonysLayout(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedMariaDB(t)
	dsn, db := srv.URL(), admin(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return open(ctx, dsn, append(patient, mysqladvisory.SymfonyLayout())...)
		},
		Foreign:  func(name string) (func() error, error) { return foreign(t, db, name) },
		Prefix:   t.Name() + "/",
		Slow:     true,
		Parallel: 8,
	})
}

// foreign takes a lock as Symfony's MysqlStore does.
func foreign(t *testing.T, db *sql.DB, name string) (release func() error, err error) {
	conn, err := db.Conn(t.Context())
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	var got int
	if err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK('"+key+"', 0)").Scan(&got); err != nil || got != 1 {
		return nil, fmt.Errorf("GET_LOCK: %d, %v", got, err)
	}
	return func() error {
		defer conn.Close()
		_, err := conn.ExecContext(context.Background(), "DO RELEASE_LOCK('"+key+"')")
		return err
	}, nil
}

// A bench is a server with a proxy in front of it for each store.
type bench struct {
	srv *server.Server
	dsn string
	// start opens a store.
	start func(ctx context.Context, dsn string) (driver.Store, error)

	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server, start func(context.Context, string) (driver.Store, error)) *bench {
	return &bench{srv: srv, dsn: srv.URL(), start: start, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		return b.start(ctx, strings.Replace(b.dsn, b.srv.Addr(), addr, 1))
	})
}

// changesLock reports whether a request takes a lock or gives it back.
func changesLock(request []byte) bool {
	return bytes.Contains(request, []byte("SELECT GET_LOCK('padlock:")) || bytes.Contains(request, []byte("SELECT RELEASE_LOCK("))
}

// The suite runs with the faults that a server can have: it is killed, stopped or cut off, or its
// replies are lost. A restart without data loses the table of fences, which the store makes again.
// A pool that does not give the store its sockets passes the suite as well as a URL.
func TestFaults(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	for name, start := range map[string]func(context.Context, string) (driver.Store, error){
		"url": func(ctx context.Context, dsn string) (driver.Store, error) {
			s, err := fromURL(ctx, dsn, "session-timeout=10s")
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		"pool": func(ctx context.Context, dsn string) (driver.Store, error) {
			return open(ctx, dsn, mysqladvisory.SessionTimeout(10*time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := server.MariaDB(t)
			h := newBench(t, srv, start).harness()
			if name == "pool" { // its idle connections are not watched, so the next request finds their end
				h.Restart = nil
			}
			drivertest.Run(t, h)
		})
	}
}

func (b *bench) harness() drivertest.Harness {
	return drivertest.Harness{
		Open:          b.open,
		Slow:          true,
		Parallel:      8,
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(changesLock),
		Restart:       b.srv.Crash,
		Pause:         b.srv.Freeze,
	}
}
