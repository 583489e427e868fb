package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/pgadvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// A cluster is a primary and a standby, and connections to both.
type cluster struct {
	primary, standby *server.Server
	one, two         *sql.DB
}

func newCluster(t *testing.T, synchronous bool) *cluster {
	t.Helper()
	c := &cluster{primary: server.Postgres(t, server.PostgresOptions{})}
	c.standby = server.PostgresStandby(t, c.primary, server.PostgresOptions{})
	connect := func(srv *server.Server) *sql.DB {
		db, _, err := postgres.Open(srv.URL())
		noError(t, err)
		t.Cleanup(func() { db.Close() })
		return db
	}
	c.one, c.two = connect(c.primary), connect(c.standby)
	within(t, "the standby follows", func() bool {
		return value(t, c.one, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1"
	})
	if synchronous {
		server.Execute(t, c.one, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
		server.Execute(t, c.one, "SELECT pg_reload_conf()")
		within(t, "the standby is synchronous", func() bool {
			return value(t, c.one, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
		})
	}
	return c
}

// url names both servers, and the driver looks for the primary.
func (c *cluster) url(scheme, wanted string) string {
	return scheme + "://postgres@" + c.standby.Addr() + "," + c.primary.Addr() + "/postgres?sslmode=disable&target_session_attrs=" + wanted
}

// failOver kills the primary and promotes the standby.
func (c *cluster) failOver(t *testing.T) {
	t.Helper()
	c.primary.Kill()
	server.Execute(t, c.two, "SELECT pg_promote()")
}

func value(t *testing.T, db *sql.DB, query string) (text string) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// within waits until yes returns true, and fails the test if that takes too long.
func within(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !yes(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// get tries until the store answers, and returns the answer.
func get(t *testing.T, s driver.Store, name, token string) (g driver.Grant, err error) {
	t.Helper()
	within(t, "an answer for "+name, func() bool {
		g, err = s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(token), TTL: 10 * time.Minute})
		return !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain)
	})
	return g, err
}

func (c *cluster) open(t *testing.T, wanted string) driver.Store {
	t.Helper()
	s, err := fromURL(t.Context(), c.url("postgres", wanted), postgres.Opener())
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func (c *cluster) openAdvisory(t *testing.T, wanted string) *pgadvisory.Store {
	t.Helper()
	u, err := url.Parse(c.url("postgres+advisory", wanted))
	noError(t, err)
	s, err := pgadvisory.FromURL(t.Context(), u)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// standbys returns what doctor prints about the standbys.
func standbys(t *testing.T, s driver.Store) driver.Finding {
	t.Helper()
	all, err := s.(driver.Reporter).Status(t.Context())
	noError(t, err)
	for _, f := range all {
		if f.Name == "standbys" {
			return f
		}
	}
	t.Fatal("the status has no standbys")
	return driver.Finding{}
}

// The standby of a synchronous replication takes over. A lease is kept and fences do not fall. An
// advisory lock ends with its server, and its holder learns of that.
func TestFailover(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	c := newCluster(t, true)
	if _, err := fromURL(t.Context(), c.standby.URL(), postgres.Opener()); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "target_session_attrs=read-write") {
		t.Errorf("a store on the standby: %v", err)
	}
	if _, err := all.Store(t.Context(), "postgres+advisory"+strings.TrimPrefix(c.standby.URL(), "postgres")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "target_session_attrs=read-write") {
		t.Errorf("advisory locks on the standby: %v", err)
	}
	a, b := c.open(t, "read-write"), c.open(t, "primary")
	if f := standbys(t, a); f.Value != "1, synchronous" || f.Advice != "" {
		t.Errorf("status: %+v", f)
	}
	fences := map[string]uint64{}
	for i := range 20 {
		name := fmt.Sprint("name ", i)
		g, err := get(t, a, name, "first")
		noError(t, err)
		fences[name] = g.Fence
	}
	advisory, other := c.openAdvisory(t, "read-write"), c.openAdvisory(t, "primary")
	bound, err := get(t, advisory, "advisory", "first")
	noError(t, err)

	c.failOver(t)
	select {
	case <-bound.Bound.Done():
	case <-time.After(30 * time.Second):
		t.Error("the holder of an advisory lock was not told that the server is gone")
	}
	if _, err := advisory.Extend(t.Context(), "advisory", "first", 0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend of an advisory lock of the old primary: %v", err)
	}
	g, err := get(t, other, "advisory", "second")
	if err != nil || !safety.Rises(t, g.Fence, bound.Fence) {
		t.Errorf("an advisory lock on the new primary: %v", err)
	}
	for name, fence := range fences {
		if _, err := get(t, b, name, "second"); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s was held on the old primary; another try on the new one: %v", name, err)
		}
		if g, err := get(t, a, name, "first"); err != nil || g.Fence != fence {
			t.Errorf("%s had fence %d on the old primary, and has %d on the new one: %v", name, fence, g.Fence, err)
		}
		out, err := a.Release(t.Context(), name, "first", 0)
		if err != nil || out != driver.OutcomeReleased {
			t.Errorf("Release of %s on the new primary: %v, %v", name, out, err)
		}
		if g, err := get(t, b, name, "third"); err != nil || !safety.Rises(t, g.Fence, fence) {
			t.Errorf("the next hold of %s: %v", name, err)
		}
	}
}

// Without synchronous replication the new primary may not know the last locks, and doctor warns of
// that. There are two holders then until the first one renews its lease. The second one has the
// higher fence.
func TestAsynchronousFailover(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	c := newCluster(t, false)
	a, b := c.open(t, "read-write"), c.open(t, "read-write")
	if f := standbys(t, a); f.Value != "1, asynchronous" || !strings.Contains(f.Advice, "synchronous_standby_names") {
		t.Errorf("status: %+v", f)
	}
	_, err := get(t, a, "old", "first")
	noError(t, err)
	at := value(t, c.one, "SELECT pg_current_wal_lsn()")
	within(t, "the standby knows the tables", func() bool { return value(t, c.two, "SELECT pg_last_wal_replay_lsn() >= '"+at+"'") == "true" })
	server.Execute(t, c.two, "ALTER SYSTEM SET primary_conninfo = ''") // from now on, the standby receives no changes
	server.Execute(t, c.two, "SELECT pg_reload_conf()")
	within(t, "the standby does not follow any more", func() bool { return value(t, c.one, "SELECT count(*) FROM pg_stat_replication") == "0" })
	first, err := get(t, a, "new", "first")
	noError(t, err)

	c.failOver(t)
	if _, err := get(t, b, "old", "second"); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("a lock that the standby knew: %v", err)
	}
	second, err := get(t, b, "new", "second")
	if err != nil || !safety.Rises(t, second.Fence, first.Fence) {
		t.Errorf("a lock that the standby did not know: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	within(t, "the first holder learns of its loss", func() bool {
		_, err = a.Extend(ctx, "new", "first", time.Minute)
		return !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain)
	})
	if !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend of the first holder: %v", err)
	}
}
