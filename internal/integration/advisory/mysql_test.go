package advisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
)

// If a proxy resets the session, its locks are gone, and Extend notices. Extend also notices the
// loss of one lock.
func TestSessionReset(t *testing.T) {
	t.Parallel()
	dsn := mariadb.shared(t).URL()
	for _, one := range []bool{false, true} {
		var reset atomic.Pointer[string]
		s := mustOpenThrough(t, &multiplexer{dsn: dsn, before: func(string) string {
			if statement := reset.Swap(nil); statement != nil {
				return *statement
			}
			return ""
		}})
		r := request(fmt.Sprint(t.Name(), one))
		g := take(t, s, r)
		statement := "DO RELEASE_ALL_LOCKS()"
		if one {
			statement = "DO RELEASE_LOCK(SHA2('" + r.Name + "', 256))"
		}
		reset.Store(&statement)
		if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), 0); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Extend after %s: %v", statement, err)
		}
		ends(t, g.Bound)
	}
}

// A deadlock that the server finds is a refusal. MariaDB and MySQL have different numbers for it.
func TestDeadlockIsARefusal(t *testing.T) {
	t.Parallel()
	dsn := mariadb.shared(t).URL()
	for _, n := range []uint16{1213, 3058} {
		var found atomic.Bool
		s := mustOpenThrough(t, &multiplexer{dsn: dsn, fail: func(query string) error {
			if found.Load() && strings.HasPrefix(query, "SELECT GET_LOCK") {
				return &mysql.MySQLError{Number: n, Message: "deadlock"}
			}
			return nil
		}})
		r := request(t.Name())
		g := take(t, s, request(fmt.Sprint(t.Name(), n)))
		found.Store(true)
		refused(t, s, r)
		found.Store(false)
		take(t, s, r)
		release(t, s, r)
		if g.Bound.Err() != nil {
			t.Error("the refusal ended the connection")
		}
	}
}

// If the reply to a try is lost with the connection, and the session stays behind in the server
// with the lock, the same token ends that session and gets the lock. No other hold ends.
func TestSessionLeftBehind(t *testing.T) {
	t.Parallel()
	dsn := mariadb.shared(t).URL()
	var lost atomic.Bool
	s := mustOpenThrough(t, &multiplexer{dsn: dsn, lose: func(query string) bool {
		return strings.HasPrefix(query, "SELECT GET_LOCK") && lost.CompareAndSwap(true, false)
	}})
	bystander := mariadb.mustOpen(t, dsn, "")
	g, r := take(t, bystander, request(t.Name()+"bystander")), request(t.Name())
	lost.Store(true)
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Acquire whose reply was lost: %v", err)
	}
	refused(t, bystander, request(r.Name))
	until(t, "a grant for the same token", func() bool {
		_, err := s.Acquire(t.Context(), r)
		if errors.Is(err, driver.ErrHeld) {
			t.Fatal("the same token is refused because of its own session")
		}
		return err == nil
	})
	if g.Bound.Err() != nil {
		t.Error("another process lost its hold")
	}
	release(t, s, r)
}

// No connection goes back to the pool: neither one that was lost, nor one that waited, nor those of
// a store that is closed. Another user of the pool would get its settings and perhaps its locks.
func TestNotPooled(t *testing.T) {
	t.Parallel()
	dsn := mariadb.shared(t).URL()
	db, admin := mariadb.db(t, dsn), mariadb.db(t, dsn)
	s, err := mysqladvisory.Open(t.Context(), db)
	noError(t, err)
	r := request(t.Name())
	g := take(t, s, r)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Wait(ctx, request(r.Name), true) })
	mariadb.queued(t, admin, 1)
	cancel()
	wg.Wait()
	run(t, admin, fmt.Sprintf(mariadb.kill, ask[int64](t, admin, mariadb.session(r.Name))))
	ends(t, g.Bound)
	take(t, s, request(t.Name()+" another"))
	if n := db.Stats().Idle; n != 0 {
		t.Errorf("%d connections went back to the pool", n)
	}
	s.Close()
	until(t, "no connection is left", func() bool { return db.Stats().OpenConnections == 0 })
}

// A pool that is too small for the store is an error, and not a wait for ever.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	db := mariadb.db(t, mariadb.shared(t).URL())
	db.SetMaxOpenConns(12)
	if _, err := mysqladvisory.Open(t.Context(), db); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "SetMaxOpenConns") {
		t.Errorf("a pool of 12: %v", err)
	}
}

// A server that is read-only is refused. If a server becomes read-only later, for example because
// another primary replaces it, the holds end.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	srv := server.MariaDB(t)
	s, admin := mariadb.mustOpen(t, srv.URL(), "loss-delay=5s"), mariadb.db(t, srv.URL()) // pings the server each second
	g := take(t, s, request("job"))
	run(t, admin, "SET GLOBAL read_only = 1")
	ends(t, g.Bound)
	if _, err := s.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("Acquire on a server that became read-only: %v", err)
	}
	if s, err := mariadb.open(t.Context(), srv.URL(), "fences=no"); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		if err == nil {
			s.Close()
		}
		t.Errorf("a server that is read-only: %v", err)
	}
	run(t, admin, "SET GLOBAL read_only = 0")
	eventually(t, s, "job") // the server may need a moment to end the session of the lost hold
}

// A node of a Galera cluster is refused, because a lock excludes only the clients of one node.
func TestGalera(t *testing.T) {
	t.Parallel()
	srv := galera(t)
	s, err := mariadb.open(t.Context(), srv.URL(), "fences=no")
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Galera") || !strings.Contains(err.Error(), "sqlstore") {
		t.Errorf("a node of a cluster: %v", err)
	}
}

// galera starts a cluster of one node.
func galera(t testing.TB) *server.Server {
	const provider = "/usr/lib/galera/libgalera_smm.so"
	spec := server.MariaDBSpec(server.MariaDBOptions{})
	plain := spec.Args
	spec.Name, spec.ExtraPorts, spec.Package = "galera", 1, "galera-4"
	spec.Args = func(p server.Place) []string {
		listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Extra[0]))
		return append(plain(p), "--wsrep-on=ON", "--wsrep-provider="+provider, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
			"--wsrep-node-address=127.0.0.1", "--wsrep-provider-options=gmcast.listen_addr=tcp://"+listen+";base_host=127.0.0.1;base_port="+strconv.Itoa(p.Extra[0]))
	}
	return server.Start(t, spec)
}

// TestPoolThatLooksAway: with checkConnLiveness=false a holder would learn too late that its
// connection has ended. Open refuses such a pool, and takes one with the default.
func TestPoolThatLooksAway(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]error{"": nil, "?checkConnLiveness=false": driver.ErrInvalid} {
		db, err := sql.Open("mysql", mariadb.shared(t).URL()+option)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, err := mysqladvisory.Open(t.Context(), db)
		if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), "checkConnLiveness") {
			t.Errorf("Open of a pool with %q: %v", option, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
