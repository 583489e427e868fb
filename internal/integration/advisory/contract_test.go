package advisory_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// harness is for stores on a server. Symfony's locks belong to the whole server, and programs other
// than padlock take them.
func (sys *system) harness(t *testing.T, url, query string) drivertest.Harness {
	h := drivertest.Harness{
		Open:      func(ctx context.Context) (driver.Store, error) { return sys.open(ctx, url, query) },
		Anonymous: sys == postgres || strings.Contains(query, "fences=no"),
		Prefix:    t.Name() + "/",
		Slow:      true,
		Parallel:  8,
	}
	if sys == mariadb && !h.Anonymous {
		db := sys.db(t, url)
		h.Foreign = func(name string) (func() error, error) { return foreign(t, db, name) }
	}
	return h
}

// On PostgreSQL, the suite runs as a user with four rights on a table that an administrator made.
func TestContract(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		url := sys.own(t).URL()
		if sys == postgres {
			statements, err := pgadvisory.Schema("")
			noError(t, err)
			run(t, sys.db(t, url), append(statements, "CREATE ROLE app LOGIN", "GRANT SELECT, INSERT, UPDATE, DELETE ON padlock_fences TO app")...)
			url = strings.Replace(url, "postgres@", "app@", 1)
		}
		drivertest.Run(t, sys.harness(t, url, sys.patient))
	})
}

func TestContractWithoutFences(t *testing.T) {
	server.Thorough(t)
	each(t, func(t *testing.T, sys *system) {
		drivertest.Run(t, sys.harness(t, sys.own(t).URL(), "fences=no&"+sys.patient))
	})
}

// Two stores that reach one server by two addresses know that they fail together.
func TestOneServerByTwoAddresses(t *testing.T) {
	each(t, func(t *testing.T, sys *system) {
		url := sys.shared(t).URL()
		one, err := sys.open(t.Context(), url, sys.patient)
		noError(t, err)
		defer one.Close()
		two, err := sys.open(t.Context(), strings.Replace(url, "127.0.0.1", "localhost", 1), sys.patient)
		noError(t, err)
		defer two.Close()
		if !driver.SamePlace(one, two) {
			t.Error("the stores do not know that they are in one place")
		}
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

// changesLock reports whether a request takes a lock or gives it back: a statement of MySQL, or a
// Bind message of PostgreSQL.
func changesLock(request []byte) bool {
	has := func(text string) bool { return bytes.Contains(request, []byte(text)) }
	return request[0] == 'B' && (has("padlock_take") || has("padlock_unlock")) || has("SELECT GET_LOCK('") || has("SELECT RELEASE_LOCK(")
}

// The suite runs with the faults that a server can have: it is killed, stopped or cut off, or its
// replies are lost. A restart without data loses the table of fences, which the store makes again.
func TestFaults(t *testing.T) {
	server.Thorough(t)
	on(t, func(t *testing.T, sys *system) {
		srv := sys.own(t)
		proxies := server.NewProxies[driver.Store](t, srv.Addr())
		h := sys.harness(t, srv.URL(), "")
		h.Open = func(ctx context.Context) (driver.Store, error) {
			return proxies.Open(func(addr string) (driver.Store, error) {
				return sys.open(ctx, strings.Replace(srv.URL(), srv.Addr(), addr, 1), sys.short)
			})
		}
		h.Foreign = nil
		h.CutConnection, h.LoseReply = proxies.Cut, proxies.LoseReply(changesLock)
		h.Restart, h.Pause = srv.Crash, srv.Freeze
		if sys == pool { // its idle connections are not watched, so the next request finds their end
			h.Restart = nil
		}
		drivertest.Run(t, h)
	}, postgres, mariadb, pool)
}
