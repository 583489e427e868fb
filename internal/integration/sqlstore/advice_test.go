package sqlstore_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// countedPushed makes a process that PostgreSQL notifies and whose statements are counted.
func (d database) countedPushed(t *testing.T) (*party, *atomic.Int64) {
	t.Helper()
	plain, err := sql.Open(d.driver, d.dsn)
	noError(t, err)
	defer plain.Close()
	count := new(atomic.Int64)
	db := sql.OpenDB(counting{plain.Driver(), d.dsn, count})
	s, err := sqlstore.Open(t.Context(), db, d.engine, sqlstore.Notify(listener{d.dsn, new(atomic.Int64)}))
	noError(t, err)
	p := &party{db: db, store: patient{s}, locker: padlock.New(s)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		p.locker.Close(ctx)
		db.Close()
	})
	return p, count
}

// joins starts to acquire a name that another process has, and waits until it has a place.
func (p *party) joins(t *testing.T, name string, other *party) <-chan *padlock.Lock {
	t.Helper()
	got := make(chan *padlock.Lock, 1)
	go func() {
		lock, err := p.locker.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		got <- lock
	}()
	other.queue(t, name, 1)
	return got
}

// A process that has just handed a name over takes its next place with one statement, and without a
// try. On a busy machine it may have forgotten the hand-over, so several are tried.
func TestJoinFirst(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	a, _ := d.countedPushed(t)
	b, count := d.countedPushed(t)
	lock, err := a.locker.Acquire(t.Context(), "n")
	noError(t, err)
	for try := 1; ; try++ {
		got := b.joins(t, "n", a)
		if b.store.JoinFirst("n") && try == 1 {
			t.Error("JoinFirst before the first hand-over")
		}
		noError(t, lock.Release())
		if lock = <-got; lock == nil {
			return
		}
		got = a.joins(t, "n", b)
		noError(t, lock.Release())
		if lock = <-got; lock == nil {
			return
		}
		advised, unknown := b.store.JoinFirst("n"), b.store.JoinFirst("unknown")
		before := count.Load()
		got = b.joins(t, "n", a)
		n := count.Load() - before
		noError(t, lock.Release())
		if lock = <-got; lock == nil {
			return
		}
		if unknown {
			t.Error("JoinFirst for another name")
		}
		if advised && n == 1 {
			break
		}
		if try == 20 {
			t.Fatalf("after a hand-over: JoinFirst %v, and %d statements for a place", advised, n)
		}
		noError(t, lock.Release())
		lock, err = a.locker.Acquire(t.Context(), "n")
		noError(t, err)
	}
	noError(t, lock.Release())
	r := driver.Request{Name: "n", Token: "free", TTL: time.Minute}
	g, err := b.store.Wait(t.Context(), r, true)
	if err != nil || g.From == 0 || g.TTL < time.Minute/2 {
		t.Errorf("Wait for a free name: %+v, %v", g, err)
	}
	if b.store.JoinFirst("n") {
		t.Error("JoinFirst for a name that was found free")
	}
}

// A process hands a name over to a waiter of its own, or polls: then it tries first.
func TestJoinFirstNot(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	a, _ := d.pushed(t)
	a.locker = padlock.New(a.store)
	first, err := a.locker.Acquire(t.Context(), "n")
	noError(t, err)
	got := a.joins(t, "n", a)
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	second := <-got
	if second == nil {
		return
	}
	if a.store.JoinFirst("n") {
		t.Error("JoinFirst after a hand-over in one process")
	}
	polls := d.party(t)
	noError(t, second.Release())
	lock, err := polls.locker.Acquire(t.Context(), "n")
	noError(t, err)
	got = a.joins(t, "n", polls)
	noError(t, lock.Release())
	if lock = <-got; lock == nil {
		return
	}
	if polls.store.JoinFirst("n") {
		t.Error("JoinFirst in a process that gets no notifications")
	}
	noError(t, lock.Release())
}
