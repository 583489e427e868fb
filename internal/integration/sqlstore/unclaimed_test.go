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

// A waiter of another process uses a name that was handed over to it at once, without a claim. Its
// release is the only statement that it needs then. A busy machine may be so slow that the claim is
// sent, so several hand-overs are tried.
func TestUsedAtOnce(t *testing.T) {
	t.Parallel()
	d := databases["postgres"](t)
	a, _ := d.pushed(t)
	a.locker = padlock.New(a.store)
	plain, err := sql.Open(d.driver, d.dsn)
	noError(t, err)
	defer plain.Close()
	count := new(atomic.Int64)
	db := sql.OpenDB(counting{plain.Driver(), d.dsn, count})
	s, err := sqlstore.Open(t.Context(), db, d.engine, sqlstore.Notify(listener{d.dsn, new(atomic.Int64)}))
	noError(t, err)
	b := padlock.New(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		a.locker.Close(ctx)
		b.Close(ctx)
		db.Close()
	})
	for try := 1; ; try++ {
		first, err := a.locker.Acquire(t.Context(), "n")
		noError(t, err)
		got := make(chan *padlock.Lock)
		go func() {
			lock, err := b.Acquire(t.Context(), "n")
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		a.queue(t, "n", 1)
		before := count.Load()
		noError(t, first.Release())
		lock := <-got
		if lock == nil {
			return
		}
		if try == 1 { // a transaction can check the lock although nothing has claimed it
			tx := a.begin(t, sql.LevelDefault)
			noError(t, a.store.CheckTx(t.Context(), tx, lock))
			noError(t, tx.Commit())
		}
		noError(t, lock.Release())
		if n := count.Load() - before; n == 1 {
			break
		} else if try == 20 {
			t.Fatalf("each of %d hand-overs needed more than a release; the last one %d statements", try, n)
		}
	}
	st, err := a.store.Inspect(t.Context(), "n")
	noError(t, err)
	if len(st.Holds) > 0 {
		t.Errorf("after the releases: %+v", st)
	}
	if _, err := a.store.Acquire(t.Context(), driver.Request{Name: "n", Token: "next", TTL: time.Minute}); err != nil {
		t.Error(err)
	}
}
