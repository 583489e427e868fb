package mysqladvisory_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mysqladvisory"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
)

// age makes the rows of all names look as if they had last been used two days ago.
const age = "UPDATE padlock_fences SET fence = fence - 172800000000 WHERE fence > 172800000000 AND lock_name <> 'padlock sweep'"

// noOwnSweep keeps the stores' own sweep away, which begins 10 to 20 s after a store was opened and
// would remove rows before the test does. It writes the row that says that a sweep has just begun.
func noOwnSweep(t testing.TB, dsn string) {
	t.Helper()
	run(t, dsn, "INSERT INTO padlock_fences (lock_name, fence, name, session, since, holder)"+
		" VALUES ('padlock sweep', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'last sweep of this table', '-', 0, '')")
}

// Old rows of free names go, in batches. Rows of names that are held, of names with a recent fence
// and of names whose fence is ahead of the clock stay. No fence falls.
func TestPrune(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	s, other := mustOpenURL(t, dsn, ""), mustOpen(t, dsn)
	noOwnSweep(t, dsn)
	fences := map[string]uint64{}
	names := 150
	if server.IsThorough() {
		names = 1200 // several batches
	}
	for i := range names {
		r := request(fmt.Sprint("job ", i))
		fences[r.Name] = take(t, s, r).Fence
		release(t, s, r)
	}
	take(t, s, request("held"))
	run(t, dsn, age)
	ahead := request("ahead")
	ahead.FenceAbove = 1 << 52
	take(t, s, ahead)
	release(t, s, ahead)
	recent := request("recent")
	take(t, s, recent)
	release(t, s, recent)
	if n, err := other.Prune(t.Context()); n != names || err != nil {
		t.Errorf("%d rows were removed, %v; want %d", n, err, names)
	}
	if n, err := s.Prune(t.Context()); n != 0 || err != nil {
		t.Errorf("%d rows were removed by a second sweep, %v", n, err)
	}
	db, err := sql.Open("mysql", dsn)
	noError(t, err)
	defer db.Close()
	if n := ask[int](t, db, "SELECT COUNT(*) FROM padlock_fences"); n != 5 {
		t.Errorf("%d rows are left, want 3, that of the version and that of the last sweep", n)
	}
	for name, last := range fences {
		if g := take(t, other, request(name)); g.Fence <= last {
			t.Fatalf("SAFETY: %s: fence %d after %d", name, g.Fence, last)
		}
	}
}

// Processes take names while others age the rows and prune. Fences never fall and nobody is
// refused by a sweep.
func TestPruneUnderLoad(t *testing.T) {
	t.Parallel()
	dsn := server.SharedMariaDB(t).URL()
	// A store waits for a row for a fifth of the loss-delay.
	stores := []*mysqladvisory.Store{mustOpenURL(t, dsn, patiently), mustOpenURL(t, dsn, patiently)}
	var working, pruning sync.WaitGroup
	done := make(chan struct{})
	var removed atomic.Int64
	pruning.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			run(t, dsn, age)
			n, err := stores[i%2].Prune(context.Background())
			if err != nil {
				t.Error(err)
			}
			removed.Add(int64(n))
		}
	})
	var last [4]uint64
	use := func(i, times int) {
		working.Go(func() {
			s := stores[i%2]
			for range times {
				r := request(fmt.Sprint("job ", i))
				g, err := s.Acquire(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if g.Fence <= last[i] {
					t.Errorf("SAFETY: fence %d after %d", g.Fence, last[i])
				}
				last[i] = g.Fence
				release(t, s, r)
			}
		})
	}
	for i := range last {
		use(i, 100)
	}
	working.Wait()
	until(t, "a row is removed", func() bool { return removed.Load() > 0 })
	for i := range last {
		use(i, 10)
	}
	working.Wait()
	close(done)
	pruning.Wait()
}

// The table has a version. A table of a newer padlock is refused, and the error says what to do. A
// table without a version is that of version 1.
func TestVersions(t *testing.T) {
	t.Parallel()
	srv := server.SharedMariaDB(t)
	dsn := srv.URL()
	u, err := url.Parse("mysql+advisory://root@" + srv.Addr() + dsn[strings.LastIndex(dsn, "/"):])
	noError(t, err)
	scheme := mysql.AdvisoryScheme()
	if statements, err := scheme.Schema(u); err != nil || len(statements) != 2 || !strings.Contains(statements[0], "`.`padlock_fences`") {
		t.Errorf("Schema: %q, %v", statements, err)
	}
	upgrade := func(from int) {
		t.Helper()
		if got, to, err := scheme.Upgrade(t.Context(), u); got != from || to != 1 || err != nil {
			t.Errorf("upgrade: from %d to %d, %v; want from %d to 1", got, to, err, from)
		}
	}
	upgrade(0)
	upgrade(1)
	run(t, dsn, "DELETE FROM padlock_fences")
	take(t, mustOpen(t, dsn), request("job"))
	upgrade(1)
	run(t, dsn, "UPDATE padlock_fences SET fence = 2 WHERE name = 'version of this table'")
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "install the newest padlock") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = open(t.Context(), dsn)
	refused("Open", err)
	_, err = mustOpen(t, dsn, mysqladvisory.Lazy()).Acquire(t.Context(), request("another job"))
	refused("the first call of a lazy store", err)
	_, _, err = scheme.Upgrade(t.Context(), u)
	refused("upgrade", err)
	take(t, mustOpen(t, dsn, mysqladvisory.NoFences()), request("without a fence"))
}

// A user who may not create tables writes the version into a table that an administrator made.
func TestUpgradeWithFewRights(t *testing.T) {
	t.Parallel()
	srv := server.SharedMariaDB(t)
	dsn := srv.URL()
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	statements, err := mysqladvisory.Schema(name)
	noError(t, err)
	run(t, dsn, append(statements, "CREATE USER "+name+"@'%'", "GRANT SELECT, INSERT, UPDATE ON "+name+".padlock_fences TO "+name+"@'%'", "DELETE FROM padlock_fences")...)
	u, err := url.Parse("mysql+advisory://" + name + "@" + srv.Addr() + "/" + name)
	noError(t, err)
	if from, to, err := mysql.AdvisoryScheme().Upgrade(t.Context(), u); from != 1 || to != 1 || err != nil {
		t.Errorf("upgrade: from %d to %d, %v", from, to, err)
	}
	db := admin(t, srv)
	if n := ask[int](t, db, "SELECT COUNT(*) FROM "+name+".padlock_fences WHERE name = 'version of this table'"); n != 1 {
		t.Errorf("%d rows with the version, want 1", n)
	}
}
