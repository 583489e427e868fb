package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestPrune: rows that have been free for long go, and no others. Fences do not fall.
func TestPrune(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a, b := d.party(t), d.party(t)
			a.noOwnSweep(t)
			t.Run("which rows", func(t *testing.T) { pruneSome(t, a) })
			t.Run("in two processes, under load", func(t *testing.T) { pruneUnderLoad(t, a, b) })
			if d.engine != sqlstore.SQLite { // a transaction of SQLite keeps all other writers out
				t.Run("a name that a transaction holds", func(t *testing.T) { pruneLocked(t, a, b) })
			}
		})
	}
}

func (p *party) take(t *testing.T, name string, r driver.Request) driver.Grant {
	t.Helper()
	r.Name, r.Token, r.TTL = name, driver.TokenOf("token of "+name), time.Minute
	g, err := p.store.Acquire(t.Context(), r)
	noError(t, err)
	return g
}

func (p *party) giveBack(t *testing.T, name string, keep time.Duration) {
	t.Helper()
	out, err := p.store.Release(t.Context(), name, "token of "+name, keep)
	if err != nil || out != driver.OutcomeReleased {
		t.Fatal(name, out, err)
	}
}

// noOwnSweep keeps the stores' own sweep away, which begins 10 to 20 s after a store was opened and
// would remove rows before the test does. It writes the setting that says that a sweep has just
// begun.
func (p *party) noOwnSweep(t *testing.T) {
	t.Helper()
	_, err := p.db.Exec(fmt.Sprintf("INSERT INTO padlock_meta (setting, value) VALUES ('swept', '%d')", time.Now().UnixMicro()))
	noError(t, err)
}

// age makes rows look as if they had last been used two days ago. The end of a cool-down stays.
func (p *party) age(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		noError(t, p.setFence(name, "fence - 172800000000, since = 0"))
	}
}

// setFence changes the fence of a name.
func (p *party) setFence(name, to string) error {
	param := "?"
	if p.store.Guarantees().Store == "postgresql" {
		param = "$1"
	}
	_, err := p.db.Exec("UPDATE padlock_locks SET fence = "+to+" WHERE name = "+param, []byte(name))
	return err
}

// rows returns the names that have a row in a table.
func (p *party) rows(t *testing.T, table string) (names []string) {
	t.Helper()
	rows, err := p.db.Query("SELECT name FROM " + table + " ORDER BY name")
	noError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name []byte
		noError(t, rows.Scan(&name))
		names = append(names, string(name))
	}
	noError(t, rows.Err())
	return names
}

func pruneSome(t *testing.T, p *party) {
	old := map[string]uint64{}
	for _, name := range []string{"free", "free too", "used today", "held", "cooling", "waited for", "lapsed", "dead holder", "ahead of the clock"} {
		r := driver.Request{}
		if name == "ahead of the clock" {
			r.FenceAbove = uint64(time.Now().Add(240 * time.Hour).UnixMicro())
		}
		old[name] = p.take(t, name, r).Fence
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() {
		_, _ = p.store.Wait(ctx, driver.Request{Name: "waited for", Token: driver.TokenOf("waiter"), TTL: time.Minute}, true)
	})
	defer waiter.Wait()
	defer cancel()
	for {
		if st, err := p.store.Inspect(t.Context(), "waited for"); err != nil || st.Waiters > 0 {
			noError(t, err)
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	for _, name := range []string{"free", "free too", "used today", "ahead of the clock"} {
		p.giveBack(t, name, 0)
	}
	p.giveBack(t, "cooling", time.Minute)
	p.age(t, "free", "free too", "held", "lapsed", "dead holder", "cooling", "waited for")
	noError(t, p.setFence("lapsed", "fence, until = until - 120000000"))         // a minute ago
	noError(t, p.setFence("dead holder", "fence, until = until - 172800000000")) // two days ago
	n, err := p.store.Prune(t.Context())
	noError(t, err)
	if n != 3 {
		t.Errorf("%d rows were removed, want 3", n)
	}
	want := []string{"ahead of the clock", "cooling", "held", "lapsed", "used today", "waited for"}
	for _, table := range p.tables() {
		if got := p.rows(t, table); !slices.Equal(got, want) {
			t.Errorf("the rows of %s are %q, want %q", table, got, want)
		}
	}
	for _, name := range []string{"free", "dead holder", "ahead of the clock"} {
		safety.Rises(t, p.take(t, name, driver.Request{}).Fence, old[name], name)
		p.giveBack(t, name, 0)
	}
}

func (p *party) tables() []string {
	if isSQLite(p) {
		return []string{"padlock_locks"}
	}
	return []string{"padlock_locks", "padlock_grants"}
}

// pruneUnderLoad: names are removed all the time while others use them. No request fails, there is
// one holder at a time, and fences rise.
func pruneUnderLoad(t *testing.T, a, b *party) {
	const names, rounds = 4, 25
	done, stop := context.WithCancel(t.Context())
	var pruners, users sync.WaitGroup
	for _, p := range []*party{a, b} {
		pruners.Go(func() {
			for done.Err() == nil {
				err := p.setFence(fmt.Sprint("load", rand.N(names)), "CASE WHEN length(token) = 0 THEN 1 ELSE fence END")
				if err != nil && !othersWrote(err) {
					t.Error(err)
					return
				}
				_, err = p.store.Prune(t.Context())
				if isSQLite(p) && errors.Is(err, context.DeadlineExceeded) {
					continue // SQLite has no queue of writers, so on a busy machine a sweep can time out
				}
				if err != nil {
					t.Errorf("Prune: %v", err)
					return
				}
			}
		})
		for i := range names {
			users.Go(func() { useOften(t, p, fmt.Sprint("load", i), rounds) })
		}
	}
	users.Wait()
	stop()
	pruners.Wait()
	// When the others have ended, a sweep must succeed on every engine.
	a.take(t, "after the load", driver.Request{})
	a.giveBack(t, "after the load", 0)
	a.age(t, "after the load")
	if n, err := a.store.Prune(t.Context()); err != nil || n == 0 {
		t.Errorf("Prune after the load: %d rows, %v", n, err)
	}
}

// othersWrote reports whether a statement of the test failed with this error because other writers
// were faster. The test does not repeat its statements.
func othersWrote(err error) bool {
	text := err.Error()
	return strings.Contains(text, "Deadlock") || strings.Contains(text, "locked") || strings.Contains(text, "Record has changed")
}

var inside, highest sync.Map

func useOften(t *testing.T, p *party, name string, rounds int) {
	key := p.store.String() + name
	for range rounds {
		lock, err := p.locker.Acquire(t.Context(), name)
		if isSQLite(p) && errors.Is(err, driver.ErrUnavailable) {
			continue // SQLite has no order of writers, so on a busy machine one may wait for too long
		}
		if err != nil {
			t.Error(err)
			return
		}
		if _, twice := inside.LoadOrStore(key, true); twice {
			safety.TwoHold(t, "%s has two holders", name)
		}
		if last, ok := highest.Swap(key, lock.Fence()); ok {
			safety.Rises(t, lock.Fence(), last.(uint64), name)
		}
		inside.Delete(key)
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
}

// pruneLocked: the row of a name that a transaction holds stays.
func pruneLocked(t *testing.T, a, b *party) {
	a.take(t, "in a transaction", driver.Request{})
	a.giveBack(t, "in a transaction", 0)
	tx := a.begin(t, sql.LevelDefault)
	b.age(t, "in a transaction")
	noError(t, a.store.LockTx(t.Context(), tx, "in a transaction"))
	_, err := b.store.Prune(t.Context())
	noError(t, err)
	if !slices.Contains(b.rows(t, "padlock_grants"), "in a transaction") {
		t.Error("the row was removed")
	}
	noError(t, tx.Commit())
}
