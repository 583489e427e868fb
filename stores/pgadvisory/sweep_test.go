package pgadvisory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// age makes all rows look as if their names had last been used two days ago.
const age = "UPDATE padlock_fences SET fence = fence - 172800000000 WHERE fence > 172800000000"

func execute(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// noOwnSweep keeps the stores' own sweep away, which begins 10 to 20 s after a store was opened. It
// would leave a row with the time of the sweep, and remove rows before the test does.
func noOwnSweep(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	execute(t, conn, "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
	execute(t, conn, "CREATE TRIGGER never BEFORE INSERT ON padlock_fences FOR EACH ROW WHEN (NEW.name = 'last sweep of this table') EXECUTE FUNCTION never()")
}

// Old rows of free names go, in batches. Rows of names that are held, of names with a recent fence
// and of names whose fence is ahead of the clock stay. No fence falls.
func TestPrune(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	s, other := mustOpen(t, srv.URL()), mustOpen(t, srv.URL())
	conn := connect(t, srv.URL())
	noOwnSweep(t, conn)
	fences := map[string]uint64{}
	const names = 1200
	for i := range names {
		r := request(fmt.Sprint("job ", i))
		fences[r.Name] = take(t, s, r).Fence
		release(t, s, r)
	}
	held, read := request("held"), reader("read")
	take(t, s, held)
	fence := take(t, s, read).Fence
	execute(t, conn, age)
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
	if n := readValue[int](t, conn, "SELECT count(*) FROM padlock_fences"); n != 5 {
		t.Errorf("%d rows are left, want 4 and that of the version", n)
	}
	if g := take(t, other, reader("read")); g.Fence != fence-172800000000 {
		t.Errorf("a reader that joins another one has fence %d, the other has %d", g.Fence, fence)
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
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	patient := pgadvisory.LossDelay(time.Minute) // a store waits for a row for a fifth of that
	stores := []*pgadvisory.Store{mustOpen(t, srv.URL(), patient), mustOpen(t, srv.URL(), patient)}
	var working, pruning sync.WaitGroup
	done := make(chan struct{})
	conn := connect(t, srv.URL())
	var removed atomic.Int64
	pruning.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			execute(t, conn, "UPDATE padlock_fences SET fence = fence - 172800000000 WHERE key IN (SELECT key FROM padlock_fences WHERE fence > 172800000000 ORDER BY random() LIMIT 20)")
			n, err := stores[rand.N(2)].Prune(context.Background())
			if err != nil {
				t.Error(err)
			}
			removed.Add(int64(n))
		}
	})
	var last [8]uint64
	use := func(times int) {
		for i := range last {
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
		working.Wait()
	}
	use(150)
	// A sweep passes over the rows of held names, and until now it may have met no others.
	untilTrue(t, "a sweep removes a row", func() bool { return removed.Load() > 0 })
	use(10)
	close(done)
	pruning.Wait()
}

// A user without the right to delete is served. Only its own sweep fails.
func TestPruneWithoutTheRight(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	conn := connect(t, srv.URL())
	statements, err := pgadvisory.Schema("")
	if err != nil {
		t.Fatal(err)
	}
	keeper, url := newUser(t, srv, "")
	for _, sql := range append(statements, "GRANT SELECT, INSERT, UPDATE ON padlock_fences TO "+keeper) {
		execute(t, conn, sql)
	}
	s := mustOpen(t, url)
	take(t, s, request("job"))
	if _, err := s.Prune(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Prune: %v", err)
	}
	take(t, s, request("another job"))
}

// The table has a version. A table of a newer padlock is refused, and the error says what to do. A
// table without a version is that of version 1.
func TestVersions(t *testing.T) {
	t.Parallel()
	srv := server.SharedPostgres(t)
	raw := "postgres+advisory" + strings.TrimPrefix(srv.URL(), "postgres")
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, srv.URL())
	upgrade := func(from int) {
		t.Helper()
		if got, to, err := pgadvisory.Scheme().Upgrade(t.Context(), u); got != from || to != 1 || err != nil {
			t.Errorf("upgrade: from %d to %d, %v; want from %d to 1", got, to, err, from)
		}
	}
	upgrade(0)
	upgrade(1)
	execute(t, conn, "DELETE FROM padlock_fences")
	old := mustOpen(t, srv.URL())
	take(t, old, request("job"))
	upgrade(1)
	const version = "fence = 2 WHERE name = 'version of this table'"
	if n := readValue[int](t, conn, "SELECT count(*) FROM padlock_fences WHERE name = 'version of this table'"); n != 1 {
		t.Errorf("%d rows have the version", n)
	}
	execute(t, conn, "UPDATE padlock_fences SET "+version)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "install the newest padlock") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = open(t.Context(), srv.URL())
	refused("Open", err)
	_, err = mustOpen(t, srv.URL(), pgadvisory.Lazy()).Acquire(t.Context(), request("another job"))
	refused("the first call of a lazy store", err)
	_, _, err = pgadvisory.Scheme().Upgrade(t.Context(), u)
	refused("upgrade", err)
	take(t, mustOpen(t, srv.URL(), pgadvisory.NoFences()), request("without a fence"))
}
