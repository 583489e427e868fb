package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// blockRow locks the row of a name in the table of locks against writers, until the returned
// transaction ends.
func (p *party) blockRow(t *testing.T, name string) *sql.Tx {
	t.Helper()
	query := "SELECT version FROM padlock_locks WHERE name = ? FOR UPDATE"
	if p.store.Guarantees().Store == "postgresql" {
		query = "SELECT version FROM padlock_locks WHERE name = $1 FOR UPDATE"
	}
	tx := p.begin(t, sql.LevelDefault)
	var version int64
	noError(t, tx.QueryRow(query, []byte(name)).Scan(&version))
	return tx
}

// TestCancelledStatement: a statement waits for a row, its caller gives up, and the server goes on
// with it, as MySQL does. Once the caller has released the token, the name is free and stays so.
func TestCancelledStatement(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		if name == "sqlite" {
			continue // nothing goes on without its caller
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a, b := d.party(t), d.party(t)
			for what, r := range map[string]driver.Request{
				"exclusive": {}, "shared": {Shared: true},
			} {
				t.Run(what, func(t *testing.T) { cancelled(t, a, b, what, r) })
			}
		})
	}
}

func cancelled(t *testing.T, a, b *party, name string, r driver.Request) {
	a.take(t, name, driver.Request{})
	a.giveBack(t, name, 0)
	tx := b.blockRow(t, name)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r.Name, r.Token, r.TTL = name, driver.TokenOf("given up"), time.Minute
	if g, err := a.store.Acquire(ctx, r); err == nil {
		safety.TwoHold(t, "fence %d was granted while the row was locked", g.Fence)
		t.FailNow()
	}
	var out driver.Outcome
	released := make(chan error, 1)
	go func() {
		var err error
		out, err = a.store.Release(context.Background(), name, "given up", 0)
		released <- err
	}()
	<-time.After(100 * time.Millisecond) // the order in which both wait for the row does not matter
	noError(t, tx.Commit())
	noError(t, <-released)
	for range 5 {
		st, err := a.store.Inspect(t.Context(), name)
		noError(t, err)
		if len(st.Holds) > 0 {
			t.Fatalf("the name is held after the release: %+v", st.Holds)
		}
		<-time.After(50 * time.Millisecond)
	}
	if out == driver.OutcomeReleased {
		return // the request came before the release, so none can come afterwards
	}
	if _, err := a.store.Acquire(t.Context(), r); err == nil {
		t.Errorf("a delayed request with the token was granted after a release with the outcome %v", out)
	}
}

// TestUnfinishedGrant: a caller has lost the connection in the middle of its request, and the
// server still keeps both rows of the name locked for the statement. When the caller repeats the
// request, it is not told that somebody has the name. It waits, and gets the name when the
// statement is undone.
func TestUnfinishedGrant(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]string{
		"postgres": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
		"mariadb":  "SELECT count(*) FROM information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id WHERE trx_state = 'LOCK WAIT' AND db = DATABASE()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := databases[name](t)
			unfinished(t, d.party(t), d.party(t), waits)
		})
	}
}

func unfinished(t *testing.T, a, b *party, waits string) {
	const name = "unfinished"
	a.take(t, name, driver.Request{})
	a.giveBack(t, name, 0)
	tx := b.blockRow(t, name)
	_, err := tx.Exec("UPDATE padlock_grants SET fence = fence + 1 WHERE name = '" + name + "'")
	noError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := a.store.Acquire(context.Background(), driver.Request{Name: name, Token: driver.TokenOf("repeated"), TTL: time.Minute})
		done <- err
	}()
	for n := 0; n == 0; {
		select {
		case err := <-done:
			t.Fatalf("the request did not wait for the statement: %v", err)
		case <-time.After(150 * time.Millisecond): // within 100 ms MariaDB repeats its last answer
		}
		noError(t, b.db.QueryRow(waits).Scan(&n))
	}
	noError(t, tx.Rollback())
	noError(t, <-done)
}

// TestParked: a contender has read that the lease is over. Before it writes, the holder renews. The
// contender does not get the name.
func TestParked(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		srv := server.SharedPostgres(t)
		parked(t, srv, database{"pgx", srv.URL() + "&default_query_exec_mode=simple_protocol", sqlstore.PostgreSQL}, "$1")
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		srv := server.SharedMariaDB(t)
		parked(t, srv, database{"mysql", srv.URL() + "?interpolateParams=true", sqlstore.MySQL}, "?")
	})
}

func parked(t *testing.T, srv *server.Server, d database, param string) {
	const name = "parked"
	a := d.party(t)
	proxy := server.NewProxy(t, srv.Addr())
	there := d
	there.dsn = strings.Replace(there.dsn, srv.Addr(), proxy.Addr(), 1)
	b := there.party(t)
	g := a.take(t, name, driver.Request{})
	shift := func(by string) {
		t.Helper()
		_, err := a.db.Exec("UPDATE padlock_locks SET version = version + 1, until = until "+by+" WHERE name = "+param, []byte(name))
		noError(t, err)
	}
	shift("- 3600000000") // the lease is over
	stopped, goOn := make(chan struct{}), make(chan struct{})
	proxy.LoseReply(func(request []byte) bool { // it stops the request that writes, and loses nothing
		if savesGrant(request) {
			select {
			case <-stopped:
			default:
				close(stopped)
				<-goOn
			}
		}
		return false
	})
	var got error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, got = b.store.Acquire(context.Background(), driver.Request{Name: name, Token: driver.TokenOf("contender"), TTL: time.Minute})
	}()
	<-stopped
	shift("+ 3600000000")
	_, err := a.store.Extend(t.Context(), name, "token of "+name, time.Minute)
	close(goOn)
	noError(t, err)
	<-done
	wantError(t, "the contender", got, driver.ErrHeld)
	st, err := a.store.Inspect(t.Context(), name)
	noError(t, err)
	if len(st.Holds) != 1 || st.Fence != g.Fence {
		t.Errorf("after the renewal: %+v, want the hold with fence %d", st, g.Fence)
	}
}

// savesGrant reports whether a request writes a state that was loaded before, with a new fence.
func savesGrant(request []byte) bool {
	return bytes.Contains(request, []byte("SET version = version + 1, fence = ")) && bytes.Contains(request, []byte("AND l.version = ")) ||
		bytes.Contains(request, []byte("STRAIGHT_JOIN")) && bytes.Contains(request, []byte("l.fence = "))
}

// TestSerializable: the suite passes where every transaction is serializable by default, and reads
// that PostgreSQL refuses are made again. TestContract does so on MariaDB.
func TestSerializable(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "default_transaction_isolation=serializable"}})
	d := database{"pgx", srv.URL(), sqlstore.PostgreSQL}
	t.Run("reads", d.refusedReads)
	drivertest.Run(t, drivertest.Harness{Open: d.open, Slow: true, Parallel: 8})
}
