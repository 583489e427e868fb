package sqlstore_test

import (
	"database/sql"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// stoppedClock makes a store remember what it has noted, however busy the machine is.
func stoppedClock() sqlstore.Option { return sqlstore.WithClock(stopped{driver.SystemClock()}) }

type stopped struct{ driver.Clock }

func (stopped) Now() driver.Instant { return driver.Instant(time.Hour) }

// countedPushed makes a process that PostgreSQL notifies and whose statements are counted.
func (d database) countedPushed(t *testing.T) (*party, *atomic.Int64) {
	t.Helper()
	plain, err := sql.Open(d.driver, d.dsn)
	noError(t, err)
	defer plain.Close()
	count := new(atomic.Int64)
	db := sql.OpenDB(counting{plain.Driver(), d.dsn, count})
	return partyOver(t, db, d.engine, sqlstore.Notify(listener{d.dsn, new(atomic.Int64)}), stoppedClock()), count
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
// try.
func TestJoinFirst(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	a, _ := d.countedPushed(t)
	b, count := d.countedPushed(t)
	lock, err := a.locker.Acquire(t.Context(), "n")
	noError(t, err)
	handOver := func(from, to *party) {
		t.Helper()
		got := to.joins(t, "n", from)
		noError(t, lock.Release())
		if lock = <-got; lock == nil {
			t.FailNow()
		}
	}
	if b.store.JoinFirst("n") {
		t.Error("JoinFirst before the first hand-over")
	}
	handOver(a, b)
	handOver(b, a)
	if !b.store.JoinFirst("n") || b.store.JoinFirst("unknown") {
		t.Errorf("after a hand-over: JoinFirst %v; for another name: %v", b.store.JoinFirst("n"), b.store.JoinFirst("unknown"))
	}
	before := count.Load()
	got := b.joins(t, "n", a)
	if n := count.Load() - before; n != 1 {
		t.Errorf("%d statements for a place", n)
	}
	noError(t, lock.Release())
	if lock = <-got; lock == nil {
		return
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
