package mutants

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/open/all"
	"github.com/padlock-go/padlock/stores/pgadvisory"
	"github.com/padlock-go/padlock/stores/semstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// TestOnDatabases breaks the stores whose locks are in a database, or end with a connection or a
// process. Each kind of row of the soak has a mutant here that must be caught.
//
// It runs before the parallel tests: their soaks in memory never wait for a server, so they would
// take the processors of this process, and a connection would need more than its 4 s.
func TestOnDatabases(t *testing.T) {
	pg := server.Postgres(t, server.PostgresOptions{Args: []string{"-c", "max_connections=200"}})
	maria := server.MariaDB(t)
	at := func(rawURL string) place {
		return patient(func(ctx context.Context) (driver.Store, error) { return all.Store(ctx, rawURL) })
	}
	owner := &mutants[0]
	if owner.name != "release without the owner check" {
		t.Fatal("another mutant is the first now")
	}
	broken := []struct {
		m  mutant
		at place
	}{
		{*owner, at(pg.URL())},
		{*owner, at("mysql://root@" + maria.Addr() + "/mysql")},
		{*owner, at("sqlite://" + filepath.Join(t.TempDir(), "db"))},
		{unawareOf(t, pg), advisory(pg)},
		{mutant{name: "a try that is granted although the name is held", within: 4000, seen: []string{"I1"}, load: soft,
			open: func(s driver.Store, k *shared) driver.Store { return generous{s.(*semstore.Store), k} }},
			func(context.Context) (driver.Store, error) { return semstore.Open(semstore.XXH128) }},
	}
	var all sync.WaitGroup
	for _, b := range broken {
		all.Go(func() { b.m.mustBeCaught(t, b.at) })
	}
	all.Wait()
	// Not at the same time: the fault of its mutant ends the connections of all padlocks, again and
	// again, until the mutant is caught.
	sound := unawareOf(t, pg)
	sound.sound = func(s driver.Store, _ *shared) driver.Store { return s }
	sound.mustPass(t, advisory(pg, pgadvisory.Namespace("sound")))
}

func advisory(srv *server.Server, opts ...pgadvisory.Option) place {
	return patient(func(ctx context.Context) (driver.Store, error) {
		u, err := url.Parse("postgres+advisory" + strings.TrimPrefix(srv.URL(), "postgres"))
		if err != nil {
			return nil, err
		}
		return pgadvisory.FromURL(ctx, u, append(opts, pgadvisory.LossDelay(time.Second))...)
	})
}

// soft makes holders work for so long that others ask for the name meanwhile. It breaks no lock by
// force.
func soft(l *soak.Load) { l.Break, l.MaxHold = 0, 10*time.Millisecond }

// unawareOf is a store that does not learn of the end of its connections, and a fault that ends
// them. Some holders work for longer than the store may take to learn of it.
func unawareOf(t *testing.T, srv *server.Server) mutant {
	db, _, err := postgres.Open(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return mutant{name: "an end of the connection that nobody notices", within: 20000, seen: []string{"I1", "I3"},
		load: func(l *soak.Load) { l.Break, l.Pause, l.MinTTL, l.MaxTTL = 0, 100, 2*time.Second, 3*time.Second },
		open: func(s driver.Store, _ *shared) driver.Store { return unaware{s.(*pgadvisory.Store)} },
		fault: func(*shared) {
			// The error is ignored: a connection may have ended already.
			_, _ = db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'padlock %'")
		}}
}

// unaware treats every hold as one that never ends by itself.
type unaware struct{ *pgadvisory.Store }

func (s unaware) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	g.Bound = context.Background()
	return g, err
}

func (s unaware) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Convert(ctx, r)
	g.Bound = context.Background()
	return g, err
}

func (s unaware) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	g, err := s.Store.Extend(ctx, name, token, ttl)
	if errors.Is(err, driver.ErrLost) {
		err = nil
	}
	g.Bound = context.Background()
	return g, err
}

// generous sometimes grants a name that is held.
type generous struct {
	*semstore.Store
	*shared
}

func (s generous) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	if errors.Is(err, driver.ErrHeld) && s.every(20, "generous") {
		return driver.Grant{}, nil
	}
	return g, err
}
