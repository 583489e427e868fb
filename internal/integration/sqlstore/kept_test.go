package sqlstore_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// TestWhoKeepsAName: Inspect tells that a transaction has the name, and the statement of
// docs/stuck.md tells which one.
func TestWhoKeepsAName(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("nobody sees what a transaction does")
		}
		a, b := d.party(t), d.party(t)
		tx, err := a.lockTx(t, "locked")
		noError(t, err)
		b.sees(t, "locked")
		if d.engine == sqlstore.PostgreSQL {
			var pid int
			noError(t, b.db.QueryRow("SELECT pid FROM ("+statementOfPage(t, "SELECT a.pid")+") AS x").Scan(&pid))
			if want := pidOf(t, tx); pid != want {
				t.Errorf("the statement of docs/stuck.md finds %d, want %d", pid, want)
			}
		}
		noError(t, tx.Commit())

		a.hold(t, "checked", "token")
		st, err := a.store.Inspect(t.Context(), "checked")
		noError(t, err)
		tx = a.begin(t, sql.LevelDefault)
		noError(t, a.store.CheckTx(t.Context(), tx, granted{"checked", st.Fence}))
		d.end(t, "checked")
		b.sees(t, "checked")
		noError(t, tx.Commit())

		for _, name := range []string{"locked", "checked", "never used"} {
			st, err := b.store.Inspect(t.Context(), name)
			noError(t, err)
			if len(st.Holds) != 0 {
				t.Errorf("%s has nobody: %+v", name, st.Holds)
			}
		}
		list, err := b.store.List(t.Context(), "")
		noError(t, err)
		if len(list) != 0 {
			t.Errorf("List: %+v", list)
		}
	})
}

// sees checks that a party sees that a transaction has a name.
func (p *party) sees(t *testing.T, name string) {
	t.Helper()
	st, err := p.store.Inspect(t.Context(), name)
	noError(t, err)
	if len(st.Holds) != 1 || st.Holds[0].Label != "a transaction that checks or holds the lock" {
		t.Errorf("Inspect while a transaction has the name: %+v", st.Holds)
	}
}

// pidOf returns the number of the server process of a transaction of PostgreSQL.
func pidOf(t *testing.T, tx *sql.Tx) (pid int) {
	t.Helper()
	noError(t, tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
	return pid
}

// TestWhoChecksAName: two transactions have called CheckTx. The second statement of docs/stuck.md
// finds both.
func TestWhoChecksAName(t *testing.T) {
	t.Parallel()
	a := databases["postgres"](t).party(t)
	lock := a.lapse(t, "locked", time.Minute)
	want := map[int]bool{}
	for range 2 {
		tx := a.begin(t, sql.LevelDefault)
		noError(t, a.store.CheckTx(t.Context(), tx, lock))
		want[pidOf(t, tx)] = true
	}
	rows, err := a.db.Query("SELECT pid FROM (" + statementOfPage(t, "SELECT DISTINCT a.pid") + ") AS x")
	noError(t, err)
	defer rows.Close()
	for rows.Next() {
		var pid int
		noError(t, rows.Scan(&pid))
		delete(want, pid)
	}
	if len(want) > 0 {
		t.Errorf("the statement of docs/stuck.md misses %v", want)
	}
}

// statementOfPage returns the statement of docs/stuck.md that begins with a text, for the name
// "locked".
func statementOfPage(t *testing.T, begins string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/stuck.md")
	noError(t, err)
	text := string(page)
	from := strings.Index(text, begins)
	if from < 0 {
		t.Fatal("docs/stuck.md has no such statement")
	}
	text, _, _ = strings.Cut(text[from:], ";")
	return strings.ReplaceAll(text, "invoice:42", "locked")
}

// TestLookingIsInNobodysWay: Inspect locks a row for a moment. LockTx and Acquire meet that lock, with
// their second statement and more, and still get the name.
func TestLookingIsInNobodysWay(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		if d.engine == sqlstore.SQLite {
			t.Skip("Inspect locks nothing")
		}
		c := &interrupted{}
		a, b := d.countedBy(t, c), d.party(t)
		for end, call := range map[int64]func() error{ // before this statement, the look ends
			3: func() error {
				tx, err := a.lockTx(t, "name")
				noError(t, tx.Rollback())
				return err
			},
			7: func() error {
				a.hold(t, "name", "token")
				_, err := a.store.Release(t.Context(), "name", "token", 0)
				return err
			},
		} {
			noError(t, call()) // from now on, the name has its rows
			c.Store(0)
			noError(t, call())
			alone := c.Load()
			look := b.begin(t, sql.LevelDefault)
			execIn(t, look, "SELECT fence FROM padlock_grants WHERE name = 'name' FOR UPDATE")
			f := func(n int64) {
				if n == end {
					look.Rollback()
				}
			}
			c.Store(0)
			c.f.Store(&f)
			noError(t, call())
			c.f.Store(nil)
			if n := c.Load(); n <= alone || n < end {
				t.Errorf("%d statements during a look, and %d without one", n, alone)
			}
		}
	})
}

// interrupted counts statements, and calls a function when one begins.
type interrupted struct {
	atomic.Int64
	f atomic.Pointer[func(n int64)]
}

func (i *interrupted) Add(n int64) int64 {
	n = i.Int64.Add(n)
	if f := i.f.Load(); f != nil {
		(*f)(n)
	}
	return n
}

// TestListReadsTheRange: List finds all names with a prefix, and reads no other rows.
func TestListReadsTheRange(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		p := d.party(t)
		names := []string{"a", "a\xff", "a\xff\xff", "b", "b\x00", "b1", "b\xff", "b\xff\xffc", "c", "\xff", "\xff\xff", "\xff\xff" + strings.Repeat("\xff", driver.MaxName-2)}
		slices.Sort(names)
		for _, name := range names {
			p.hold(t, name, "token")
		}
		for _, prefix := range []string{"", "a", "a\xff", "b", "b\xff", "b\xff\xff", "c", "d", "\xff", "\xff\xff", "\xff\xff\xff"} {
			list, err := p.store.List(t.Context(), prefix)
			noError(t, err)
			var got, want []string
			for _, s := range list {
				got = append(got, s.Name)
			}
			for _, name := range names {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("List(%q): %q, want %q", prefix, got, want)
			}
		}
	})
}

// TestListInPortions: List reads more names than one statement returns, each once.
func TestListInPortions(t *testing.T) {
	t.Parallel()
	p := databases["postgres"](t).party(t)
	p.hold(t, "n", "token")
	_, err := p.db.Exec("INSERT INTO padlock_locks SELECT convert_to('n' || i, 'UTF8'), version, fence, token, reserved, since, until, least, holder, busy, more FROM padlock_locks, generate_series(1, 20001) AS i")
	noError(t, err)
	list, err := p.store.List(t.Context(), "n")
	noError(t, err)
	names := map[string]bool{}
	for _, s := range list {
		names[s.Name] = true
	}
	if len(list) != 20002 || len(names) != len(list) {
		t.Errorf("%d states of %d names", len(list), len(names))
	}
}

// TestListAmongIdleRows: PostgreSQL reads the clock once for a list, and only rows with the prefix.
func TestListAmongIdleRows(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	d := databases["postgres"](t)
	p := d.party(t)
	p.hold(t, "cron:a", "token")
	_, err := p.db.Exec("INSERT INTO padlock_locks SELECT convert_to('job:' || n, 'UTF8'), 1, 1, '', 0, 0, 0, 0, '', 1, '' FROM generate_series(1, 20000) AS n")
	noError(t, err)
	plain, err := sql.Open(d.driver, d.dsn)
	noError(t, err)
	defer plain.Close()
	n := &notes{counting: counting{plain.Driver(), d.dsn, new(atomic.Int64)}}
	reader := partyOver(t, sql.OpenDB(n), d.engine)
	list, err := reader.store.List(t.Context(), "cron:")
	noError(t, err)
	if len(list) != 1 {
		t.Errorf("%+v", list)
	}
	if n.text == "" {
		t.Fatal("no statement reads the names in order")
	}
	var plan []byte
	noError(t, p.db.QueryRow("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+n.text, n.args...).Scan(&plan))
	var tree []struct{ Plan planNode }
	noError(t, json.Unmarshal(plan, &tree))
	if n := tree[0].Plan.removed(); n > 0 {
		t.Errorf("the list has read %v rows that it does not need:\n%s", n, plan)
	}
	if clock := strings.Index(n.text, "busy > (SELECT"); clock < 0 {
		t.Errorf("the list reads the clock for each row: %s", n.text)
	}
}

// notes remembers the statement that lists names.
type notes struct {
	counting
	text string
	args []any
}

func (n *notes) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := n.counting.Connect(ctx)
	return notedConn{conn.(countedConn), n}, err
}

type notedConn struct {
	countedConn
	n *notes
}

func (c notedConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if strings.Contains(query, "ORDER BY name LIMIT") {
		c.n.text, c.n.args = query, nil
		for _, a := range args {
			c.n.args = append(c.n.args, a.Value)
		}
	}
	return c.countedConn.QueryContext(ctx, query, args)
}

type planNode struct {
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []planNode
}

// removed returns how many rows the plan has read and not used.
func (n planNode) removed() float64 {
	sum := n.Removed
	for _, p := range n.Plans {
		sum += p.removed()
	}
	return sum
}
