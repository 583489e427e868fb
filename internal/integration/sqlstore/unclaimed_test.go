package sqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A waiter of another process uses a name that was handed over to it without a claim. A transaction
// can check the lock, and the release is the only statement that the waiter needs.
func TestUsedAtOnce(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	d.keepReservations(t)
	a, _ := d.pushed(t)
	b, count := d.countedPushed(t)
	const name = reservedLong + "n"
	a.take(t, name, driver.Request{})
	got := make(chan grant, 1)
	r := driver.Request{Name: name, Token: "waiter", TTL: time.Minute}
	go func() {
		g, err := b.store.Wait(t.Context(), r, true)
		got <- grant{reserved: g, err: err}
	}()
	a.queue(t, name, 1)
	a.giveBack(t, name, 0)
	one := <-got
	if noError(t, one.err); one.reserved.TTL == 0 {
		t.Fatal("the name was not reserved for the waiter")
	}
	tx := a.begin(t, sql.LevelDefault)
	noError(t, a.store.CheckTx(t.Context(), tx, granted{name, one.reserved.Fence}))
	noError(t, tx.Commit())
	before := count.Load()
	out, err := b.store.Release(t.Context(), name, r.Token, 0)
	if n := count.Load() - before; out != driver.OutcomeReleased || err != nil || n != 1 {
		t.Errorf("Release: %v, %v, with %d statements", out, err, n)
	}
	st, err := a.store.Inspect(t.Context(), name)
	noError(t, err)
	if len(st.Holds) > 0 {
		t.Errorf("after the release: %+v", st)
	}
	a.take(t, name, driver.Request{})
}
