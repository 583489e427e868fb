package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/sqlstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"
)

// A party is one process: a pool, a store and a Locker over it.
type party struct {
	db     *sql.DB
	store  *sqlstore.Store
	locker *padlock.Locker
}

func (d database) party(t *testing.T) *party {
	t.Helper()
	db, err := d.pool()
	noError(t, err)
	return partyOver(t, db, d.engine)
}

func partyOver(t *testing.T, db *sql.DB, e sqlstore.Engine, opts ...sqlstore.Option) *party {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), db, e, opts...)
	noError(t, err)
	l := padlock.New(store)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		l.Close(ctx)
		db.Close()
	})
	return &party{db: db, store: store, locker: l}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}

func (p *party) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := p.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	noError(t, err)
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// lapse takes a lock that is not renewed.
func (p *party) lapse(t *testing.T, name string, ttl time.Duration) *padlock.Lock {
	t.Helper()
	lock, err := p.locker.TryAcquire(t.Context(), name, padlock.TTL(ttl), padlock.NoRenewal())
	noError(t, err)
	return lock
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			transactions(t, d.party(t), d.party(t), d.engine)
		})
	}
}

func transactions(t *testing.T, a, b *party, e sqlstore.Engine) {
	t.Run("check", func(t *testing.T) { check(t, a, b) })
	t.Run("check of a slot", func(t *testing.T) { checkSlot(t, a, b) })
	t.Run("check of a lock that is over", func(t *testing.T) { checkLate(t, a, b, e) })
	t.Run("lock", func(t *testing.T) { lockTx(t, a, b) })
	t.Run("rollback frees nothing", func(t *testing.T) { rollback(t, a, b) })
	t.Run("savepoint", func(t *testing.T) { savepoint(t, a, b, e) })
	t.Run("lock while the row changes", func(t *testing.T) { lockInTraffic(t, a, b, e) })
	if e == sqlstore.SQLite {
		t.Run("old snapshot", func(t *testing.T) { oldSnapshot(t, a, b, sql.LevelDefault) })
		return
	}
	t.Run("nothing waits for a check", func(t *testing.T) { noWait(t, a, b) })
	levels := []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable}
	if e == sqlstore.MySQL {
		levels = levels[:1] // SERIALIZABLE locks the rows that it reads, so none of them is old
	}
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) { oldSnapshot(t, a, b, level) })
	}
}

// TestTransactionsBehindPgBouncer: CheckTx and LockTx in transactions that go through a pooler, as
// the store's own statements do.
func TestTransactionsBehindPgBouncer(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	pg := server.Postgres(t, server.PostgresOptions{})
	for _, mode := range []string{"session", "transaction"} {
		pooler := server.PgBouncer(t, pg, mode)
		t.Run(mode, func(t *testing.T) {
			party := func() *party {
				db, _, err := postgres.Open(pooler.URL())
				noError(t, err)
				db.SetMaxOpenConns(5) // in session mode, the pooler has 20 connections for all
				return partyOver(t, db, sqlstore.PostgreSQL)
			}
			transactions(t, party(), party(), sqlstore.PostgreSQL)
		})
	}
}

// check keeps others out from the check to the end of the transaction, and no longer.
func check(t *testing.T, a, b *party) {
	lock, err := a.locker.TryAcquire(t.Context(), "check")
	noError(t, err)
	tx := a.begin(t, sql.LevelDefault)
	noError(t, a.store.CheckTx(t.Context(), tx, lock))
	noError(t, a.store.CheckTx(t.Context(), tx, lock))
	noError(t, tx.Commit())
	noError(t, lock.Release())
	tx = a.begin(t, sql.LevelDefault)
	wantError(t, "a check after the release", a.store.CheckTx(t.Context(), tx, lock), driver.ErrLost)
	noError(t, tx.Rollback())
	lock, err = b.locker.TryAcquire(t.Context(), "check")
	noError(t, err)
	noError(t, lock.Release())
}

// checkSlot is about a lock with a slot, which the store keeps under a name of its own.
func checkSlot(t *testing.T, a, b *party) {
	first, err := a.locker.TryAcquire(t.Context(), "slotted", padlock.Slots(2))
	noError(t, err)
	second, err := b.locker.TryAcquire(t.Context(), "slotted", padlock.Slots(2))
	noError(t, err)
	tx := a.begin(t, sql.LevelDefault)
	noError(t, a.store.CheckTx(t.Context(), tx, first))
	noError(t, tx.Commit())
	noError(t, first.Release())
	tx = a.begin(t, sql.LevelDefault)
	wantError(t, "a check after the release", a.store.CheckTx(t.Context(), tx, first), driver.ErrLost)
	noError(t, tx.Rollback())
	noError(t, second.Release())
}

// checkLate is about a process that was paused. By the time it writes, its lease is over and
// another process has held the lock.
func checkLate(t *testing.T, a, b *party, e sqlstore.Engine) {
	lock := a.lapse(t, "late", time.Minute)
	_, err := b.db.Exec(meetings(e, nil).EndLease, []byte("late"))
	noError(t, err)
	other, err := b.locker.TryAcquire(t.Context(), "late")
	noError(t, err)
	tx := a.begin(t, sql.LevelDefault)
	wantError(t, "a check by the holder of before", a.store.CheckTx(t.Context(), tx, lock), driver.ErrLost)
	noError(t, tx.Rollback())
	tx = b.begin(t, sql.LevelDefault)
	noError(t, b.store.CheckTx(t.Context(), tx, other))
	noError(t, tx.Commit())
	fence := other.Fence()
	if _, err := a.locker.Break(t.Context(), "late", fence); err != nil {
		t.Fatal(err)
	}
	tx = b.begin(t, sql.LevelDefault)
	wantError(t, "a check by a holder that was evicted", b.store.CheckTx(t.Context(), tx, other), driver.ErrLost)
	noError(t, tx.Rollback())
	wantError(t, "its release", other.Release(), driver.ErrLost)
}

func lockTx(t *testing.T, a, b *party) {
	ctx := t.Context()
	tx := a.begin(t, sql.LevelDefault)
	noError(t, a.store.LockTx(ctx, tx, "another name"))
	noError(t, tx.Commit())
	tx = a.begin(t, sql.LevelDefault)
	noError(t, a.store.LockTx(ctx, tx, "tx"))
	if a.db.Stats().MaxOpenConnections > 1 && !isSQLite(a) {
		tx2 := b.begin(t, sql.LevelDefault)
		wantError(t, "a second transaction", b.store.LockTx(ctx, tx2, "tx"), driver.ErrHeld)
		noError(t, b.store.LockTx(ctx, tx2, "another name")) // the refusal did not spoil the transaction
		noError(t, tx2.Commit())
		_, err := b.locker.TryAcquire(ctx, "tx")
		wantError(t, "TryAcquire meanwhile", err, driver.ErrHeld)
	}
	noError(t, tx.Commit())
	lock, err := b.locker.Acquire(ctx, "tx", padlock.Wait(time.Minute))
	noError(t, err)
	tx = a.begin(t, sql.LevelDefault)
	wantError(t, "a transaction, under a lease of this process", a.store.LockTx(ctx, tx, "tx"), driver.ErrHeld)
	noError(t, tx.Rollback())
	noError(t, lock.Release())
	// Another process has it.
	g, err := b.store.Acquire(ctx, driver.Request{Name: "tx", Token: driver.TokenOf("another"), TTL: time.Minute, Holder: driver.Holder{Host: "elsewhere", PID: 1}})
	noError(t, err)
	tx = a.begin(t, sql.LevelDefault)
	err = a.store.LockTx(ctx, tx, "tx")
	wantError(t, "a transaction, under a lease of another process", err, driver.ErrHeld)
	if held := new(driver.HeldError); !errors.As(err, &held) || len(held.Holds) != 1 || held.Holds[0].Host != "elsewhere" {
		t.Errorf("the refusal does not say who: %v (fence %d)", err, g.Fence)
	}
	noError(t, tx.Rollback())
	_, err = b.store.Release(ctx, "tx", "another", 0)
	noError(t, err)
}

func isSQLite(p *party) bool { return p.store.Guarantees().Store == "sqlite" }

// rollback: a transaction of the caller's neither frees nor takes a lock when it is undone.
func rollback(t *testing.T, a, b *party) {
	tx := a.begin(t, sql.LevelDefault)
	lock, err := a.locker.TryAcquire(t.Context(), "rollback")
	noError(t, err)
	noError(t, tx.Rollback())
	_, err = b.locker.TryAcquire(t.Context(), "rollback")
	wantError(t, "TryAcquire of others after the rollback", err, driver.ErrHeld)
	noError(t, lock.Release())
}

// noWait: while a transaction has checked the lock, the calls of the holder and of the operator do
// not wait.
func noWait(t *testing.T, a, b *party) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a call that waits fails after 4.5 s
	defer cancel()
	for what, f := range map[string]func(lock *padlock.Lock) error{
		"Extend":  func(lock *padlock.Lock) error { return lock.Extend(ctx, time.Minute) },
		"Check":   func(lock *padlock.Lock) error { return lock.Check(ctx) },
		"Release": func(lock *padlock.Lock) error { return lock.Release() },
		"Break": func(lock *padlock.Lock) error {
			_, err := b.locker.Break(ctx, lock.Name(), lock.Fence())
			return err
		},
		"Inspect": func(lock *padlock.Lock) error { _, err := b.locker.Inspect(ctx, lock.Name()); return err },
		"a check by another transaction": func(lock *padlock.Lock) error {
			tx := b.begin(t, sql.LevelDefault)
			defer tx.Rollback()
			return a.store.CheckTx(ctx, tx, lock)
		},
	} {
		lock, err := a.locker.Acquire(ctx, "no wait", padlock.Wait(time.Minute))
		noError(t, err)
		tx := a.begin(t, sql.LevelDefault)
		noError(t, a.store.CheckTx(ctx, tx, lock))
		if err := f(lock); err != nil {
			t.Errorf("%s while a transaction has checked the lock: %v", what, err)
		}
		if l, err := b.locker.TryAcquire(ctx, "no wait"); err == nil {
			safety.TooEarly(t, "after %s the name was granted before the end of the transaction (fence %d)", what, l.Fence())
		}
		noError(t, tx.Commit())
		lock.Release()
	}
}

// oldSnapshot: the transaction has read before the lock was taken, or before it became free.
func oldSnapshot(t *testing.T, a, b *party, level sql.IsolationLevel) {
	ctx := t.Context()
	name := "snapshot " + level.String()
	lock, err := a.locker.TryAcquire(ctx, name)
	noError(t, err)
	noError(t, lock.Release())

	read := func() *sql.Tx {
		tx := a.begin(t, level)
		var n int
		noError(t, tx.QueryRow("SELECT count(*) FROM padlock_meta").Scan(&n))
		return tx
	}
	tx := read()
	lock, err = a.locker.TryAcquire(ctx, name)
	noError(t, err)
	if err := a.store.CheckTx(ctx, tx, lock); err == nil {
		t.Error("CheckTx in a transaction that began before the lock was taken")
	}
	tx.Rollback()

	tx = read() // it does not see later changes of the holder
	noError(t, lock.Release())
	if err := a.store.LockTx(ctx, tx, name); err == nil || level != sql.LevelDefault && !strings.Contains(err.Error(), "begin a new one") {
		t.Error("LockTx in a transaction that has read under the lease of another", err)
	}
	tx.Rollback()

	tx = read()
	inner := b.begin(t, sql.LevelDefault)
	noError(t, b.store.LockTx(ctx, inner, name))
	for _, query := range []string{"DELETE FROM padlock_meta WHERE setting = '" + name + "'", "INSERT INTO padlock_meta VALUES ('" + name + "', 'what the earlier holder wrote')"} {
		_, err = inner.Exec(query)
		noError(t, err)
	}
	noError(t, inner.Commit())
	if err := a.store.LockTx(ctx, tx, name); err == nil || level != sql.LevelDefault && !strings.Contains(err.Error(), "begin a new one") {
		t.Error("LockTx in a transaction that has read before another one had the lock", err)
	}
	tx.Rollback()

	tx = a.begin(t, level)
	noError(t, a.store.LockTx(ctx, tx, name))
	noError(t, tx.Commit())
}

// savepoint: a rollback to a savepoint does not end what was called before the savepoint.
func savepoint(t *testing.T, a, b *party, e sqlstore.Engine) {
	lock, tx := a.lapse(t, "savepoint", time.Minute), a.begin(t, sql.LevelDefault)
	noError(t, a.store.LockTx(t.Context(), tx, "savepoint too"))
	noError(t, a.store.CheckTx(t.Context(), tx, lock))
	for _, query := range []string{"SAVEPOINT here", "UPDATE padlock_meta SET value = value", "ROLLBACK TO SAVEPOINT here"} {
		_, err := tx.Exec(query)
		noError(t, err)
	}
	exec, patience := b.db.Exec, time.Minute
	if e == sqlstore.SQLite { // every write waits for the transaction
		exec, patience = tx.Exec, 100*time.Millisecond
	}
	_, err := exec(meetings(e, nil).EndLease, []byte("savepoint"))
	noError(t, err)
	for _, name := range []string{"savepoint", "savepoint too"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if l, err := b.locker.TryAcquire(ctx, name); err == nil {
			safety.TooEarly(t, "%s was granted (fence %d) before the transaction ended", name, l.Fence())
		}
	}
	noError(t, tx.Commit())
}

// TestTransactionsUseUpThePool: every connection of the pool is in a transaction of the caller's.
// LockTx, and CheckTx on MySQL, need another one, and give up as every call does.
func TestTransactionsUseUpThePool(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := databases[name](t)
			db, err := d.pool()
			noError(t, err)
			db.SetMaxOpenConns(2)
			p := partyOver(t, db, d.engine)
			lock := p.lapse(t, "name", time.Minute)
			one, two := p.begin(t, sql.LevelDefault), p.begin(t, sql.LevelDefault)
			check, locks := make(chan error, 1), make(chan error, 1)
			go func() { check <- p.store.CheckTx(context.Background(), one, lock) }()
			go func() { locks <- p.store.LockTx(context.Background(), two, "another name") }()
			for what, got := range map[string]chan error{"CheckTx": check, "LockTx": locks} {
				var want error = driver.ErrUnavailable
				if what == "CheckTx" && d.engine == sqlstore.PostgreSQL {
					want = nil
				}
				select {
				case err := <-got:
					wantError(t, what+" without a free connection", err, want)
				case <-time.After(20 * time.Second):
					t.Fatal("a call waits for a free connection for ever")
				}
			}
		})
	}
}

// TestLockTxFirst: LockTx is the first call of a store that has not asked the server yet. It does
// not touch tables of a version that it does not know.
func TestLockTxFirst(t *testing.T) {
	t.Parallel()
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			a := d.party(t)
			lazy := func() *sqlstore.Store {
				s, err := sqlstore.Open(t.Context(), a.db, d.engine, sqlstore.Lazy())
				noError(t, err)
				t.Cleanup(func() { s.Close() })
				return s
			}
			tx := a.begin(t, sql.LevelDefault)
			noError(t, lazy().LockTx(t.Context(), tx, "name"))
			noError(t, tx.Commit())
			_, err := a.db.Exec("UPDATE padlock_meta SET value = '2' WHERE setting = 'schema'")
			noError(t, err)
			tx = a.begin(t, sql.LevelDefault)
			wantText(t, "LockTx", lazy().LockTx(t.Context(), tx, "name"), driver.ErrUnavailable, "version 2")
		})
	}
}

// lockInTraffic: a holder renews its lease again and again. At READ COMMITTED, LockTx says that
// somebody has the name, and nothing else.
func lockInTraffic(t *testing.T, a, b *party, e sqlstore.Engine) {
	level, r := sql.LevelReadCommitted, driver.Request{Name: "traffic", Token: driver.TokenOf("token"), TTL: time.Minute, Holder: driver.Holder{Host: "elsewhere"}}
	pause := time.Duration(0)
	if e == sqlstore.SQLite { // it has no queue of writers, so LockTx needs moments in which nobody writes
		level, pause = sql.LevelDefault, 50*time.Millisecond
	}
	_, err := b.store.Acquire(t.Context(), r)
	noError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			began := time.Now()
			_, _ = b.store.Extend(ctx, r.Name, r.Token.Text(), r.TTL)
			if pause > 0 { // a slow disk needs a longer pause
				pause = max(50*time.Millisecond, time.Since(began))
			}
			<-time.After(pause)
		}
	}()
	for range 100 {
		tx := a.begin(t, level)
		wantError(t, "LockTx", a.store.LockTx(t.Context(), tx, r.Name), driver.ErrHeld)
		noError(t, tx.Rollback())
	}
	stop()
	<-ended
	_, err = b.store.Release(t.Context(), r.Name, r.Token.Text(), 0)
	noError(t, err)
}
