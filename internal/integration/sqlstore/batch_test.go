package sqlstore_test

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// A counting connects to a database and counts the statements.
type counting struct {
	d     sqldriver.Driver
	dsn   string
	count adder
}

// An adder is an atomic.Int64, or a function that is called when a statement begins.
type adder interface{ Add(int64) int64 }

func (c counting) Driver() sqldriver.Driver { return c.d }

func (c counting) Connect(context.Context) (sqldriver.Conn, error) {
	conn, err := c.d.Open(c.dsn)
	return countedConn{conn, c.count}, err
}

type countedConn struct {
	sqldriver.Conn
	count adder
}

func (c countedConn) CheckNamedValue(v *sqldriver.NamedValue) error {
	if checker, ok := c.Conn.(sqldriver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return sqldriver.ErrSkip
}

// skipped takes back the count of a statement that the driver wants to prepare first.
func (c countedConn) skipped(err error) {
	if err == sqldriver.ErrSkip {
		c.count.Add(-1)
	}
}

func (c countedConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.count.Add(1)
	res, err := c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, query, args)
	c.skipped(err)
	return res, err
}

func (c countedConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.count.Add(1)
	rows, err := c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, query, args)
	c.skipped(err)
	return rows, err
}

func (c countedConn) PrepareContext(ctx context.Context, query string) (sqldriver.Stmt, error) {
	st, err := c.Conn.(sqldriver.ConnPrepareContext).PrepareContext(ctx, query)
	return countedStmt{st, c.count}, err
}

type countedStmt struct {
	sqldriver.Stmt
	count adder
}

func (s countedStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	s.count.Add(1)
	return s.Stmt.(sqldriver.StmtExecContext).ExecContext(ctx, args)
}

func (s countedStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	s.count.Add(1)
	return s.Stmt.(sqldriver.StmtQueryContext).QueryContext(ctx, args)
}

// counted makes a party whose statements are counted.
func (d database) counted(t *testing.T) (*party, *atomic.Int64) {
	t.Helper()
	count := new(atomic.Int64)
	return d.countedBy(t, count), count
}

func (d database) countedBy(t *testing.T, count adder) *party {
	t.Helper()
	plain, err := sql.Open(d.driver, d.dsn)
	noError(t, err)
	defer plain.Close()
	db := sql.OpenDB(counting{plain.Driver(), d.dsn, count})
	db.SetMaxOpenConns(10)
	return partyOver(t, db, d.engine)
}

// extensions are renewals of n holds. The names are not in order.
func extensions(n int, ttl time.Duration) (all []fast.Extension) {
	for i := range n {
		all = append(all, fast.Extension{Name: fmt.Sprintf("%x-%d", i*7919%256, i), Token: driver.TokenOf(fmt.Sprint("token", i)), TTL: ttl})
	}
	return all
}

func takeAll(t *testing.T, s driver.Store, all []fast.Extension, ttl time.Duration) {
	t.Helper()
	for _, h := range all {
		_, err := s.Acquire(t.Context(), driver.Request{Name: h.Name, Token: h.Token, TTL: ttl})
		noError(t, err)
	}
}

func TestExtendBatch(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			t.Run("statements", d.statementsOfBatch)
			t.Run("each", d.batchOfEachKind)
			t.Run("one token", d.batchOfOneToken)
			t.Run("locked", d.batchWithLockedRow)
		})
	}
}

// 300 holds need two statements.
func (d database) statementsOfBatch(t *testing.T) {
	p, count := d.counted(t)
	all := extensions(300, time.Hour)
	takeAll(t, p.store, all, 5*time.Minute) // which a slow machine may need for 300 holds
	before := count.Load()
	out, err := p.store.ExtendBatch(t.Context(), all)
	noError(t, err)
	if n := count.Load() - before; n != 2 {
		t.Errorf("%d statements for 300 holds", n)
	}
	for i, o := range out {
		if o.Err != nil || o.Grant.TTL != time.Hour {
			t.Fatalf("%s: %+v", all[i].Name, o)
		}
	}
	states, err := p.store.List(t.Context(), "")
	if err != nil || len(states) != len(all) {
		t.Fatalf("%d names, %v", len(states), err)
	}
	for _, st := range states {
		if time.Until(st.Holds[0].Until) < 30*time.Minute {
			t.Errorf("%+v", st)
		}
	}
}

// A batch has holds of every kind, and each gets the answer of Extend.
func (d database) batchOfEachKind(t *testing.T) {
	p, _ := d.counted(t)
	all := extensions(40, 10*time.Minute)
	for i := range all {
		all[i].Name = "kind" + all[i].Name
	}
	all[5].Name, all[5].Token = "\x00\xff'\\", driver.TokenOf("\x00\xfe'\"")
	takeAll(t, p.store, all, time.Minute)
	release := func(i int) {
		_, err := p.store.Release(t.Context(), all[i].Name, all[i].Token.Text(), 0)
		noError(t, err)
	}
	release(1)
	release(2) // from now on, somebody else has this name
	_, err := p.store.Acquire(t.Context(), driver.Request{Name: all[2].Name, Token: driver.TokenOf("other"), TTL: time.Minute})
	noError(t, err)
	release(3) // from now on, two readers have this name
	all = append(all, fast.Extension{Name: all[3].Name, Token: driver.TokenOf("reader"), TTL: 10 * time.Minute})
	for _, token := range []string{all[3].Token.Text(), "reader"} {
		_, err := p.store.Acquire(t.Context(), driver.Request{Name: all[3].Name, Token: driver.TokenOf(token + "'s"), TTL: time.Minute, Shared: true})
		noError(t, err)
	}
	all[3].Token = driver.TokenOf(all[3].Token.Text() + "'s")
	all[40].Token = driver.TokenOf(all[40].Token.Text() + "'s")
	all[4].TTL = 0                                                          // only verified
	all[6].TTL = time.Hour                                                  // another TTL than the others
	all[7].TTL = time.Second                                                // never shortens a lease
	noError(t, p.setFence(all[8].Name, "fence, reserved = 1"))              // nobody has claimed it
	noError(t, p.setFence(all[9].Name, "fence, until = until - 120000000")) // nobody else has taken it since
	out, err := p.store.ExtendBatch(t.Context(), all)
	noError(t, err)
	want := map[int]error{1: driver.ErrLost, 2: driver.ErrLost, 8: driver.ErrLost, 9: driver.ErrExpired}
	for i, o := range out {
		least := cmp.Or(all[i].TTL*9/10, time.Second) // the lease that is only verified has more than a second left
		if !errors.Is(o.Err, want[i]) || o.Err == nil && o.Grant.TTL < least {
			t.Errorf("hold %d: %+v", i, o)
		}
		if i == 3 || i == 40 {
			if !o.Grant.Shared {
				t.Errorf("the hold of reader %d: %+v", i, o)
			}
		}
	}
	for i, least := range map[int]time.Duration{4: time.Second, 5: 5 * time.Minute, 6: 50 * time.Minute, 7: 5 * time.Second} {
		st, err := p.store.Inspect(t.Context(), all[i].Name)
		noError(t, err)
		if left := time.Until(st.Holds[0].Until); left < least {
			t.Errorf("hold %d has %v left", i, left)
		}
	}
}

// A token that has two names is lost under one of them only. A hold that is listed twice has at
// least the lease that its answers say.
func (d database) batchOfOneToken(t *testing.T) {
	p, _ := d.counted(t)
	all := []fast.Extension{
		{Name: "one kept", Token: driver.TokenOf("same"), TTL: 5 * time.Minute}, {Name: "one lost", Token: driver.TokenOf("same"), TTL: 5 * time.Minute},
		{Name: "twice", Token: driver.TokenOf("twice"), TTL: 5 * time.Minute}, {Name: "twice", Token: driver.TokenOf("twice"), TTL: time.Hour},
		{Name: "back", Token: driver.TokenOf("back"), TTL: time.Hour}, {Name: "back", Token: driver.TokenOf("back"), TTL: 5 * time.Minute},
	}
	takeAll(t, p.store, all, time.Minute)
	_, err := p.store.Release(t.Context(), "one lost", "same", 0)
	noError(t, err)
	out, err := p.store.ExtendBatch(t.Context(), all)
	noError(t, err)
	if !errors.Is(out[1].Err, driver.ErrLost) {
		t.Errorf("a released hold: %+v", out[1])
	}
	for _, i := range []int{0, 2, 3, 4, 5} {
		noError(t, out[i].Err)
		st, err := p.store.Inspect(t.Context(), all[i].Name)
		noError(t, err)
		if left := time.Until(st.Holds[0].Until); left < out[i].Grant.TTL*9/10 {
			t.Errorf("hold %d has %v left, and the answer was %v", i, left, out[i].Grant.TTL)
		}
	}
}

// A row that somebody has locked keeps only its own hold from being extended, so two batches cannot
// wait for each other. A transaction that checks a lock keeps no hold from it.
func (d database) batchWithLockedRow(t *testing.T) {
	if d.engine == sqlstore.SQLite {
		t.Skip("SQLite has one writer at a time")
	}
	p, count := d.counted(t)
	all := extensions(20, 10*time.Minute)
	for i := range all {
		all[i].Name = "locked" + all[i].Name
	}
	takeAll(t, p.store, all, time.Minute)
	lock := p.lapse(t, "checked", time.Minute)
	tx := p.begin(t, sql.LevelDefault)
	noError(t, p.store.CheckTx(t.Context(), tx, lock))
	stuck := p.begin(t, sql.LevelDefault)
	_, err := stuck.Exec("UPDATE padlock_locks SET version = version + 1 WHERE name = '" + all[7].Name + "'")
	noError(t, err)
	before := count.Load()
	out, err := p.store.ExtendBatch(t.Context(), all) // it waits for the locked row as long as a call may take
	noError(t, err)
	for i, o := range out {
		if (o.Err == nil) == (i == 7) {
			t.Errorf("hold %d: %+v", i, o)
		}
	}
	most := int64(5)
	if d.engine == sqlstore.MySQL { // which does not tell which rows changed
		most = 1 + int64(len(all))
	}
	if n := count.Load() - before; n > most {
		t.Errorf("%d statements", n)
	}
	noError(t, stuck.Rollback())
	noError(t, tx.Commit())
}
