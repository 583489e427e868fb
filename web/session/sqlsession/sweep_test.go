package sqlsession_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sqlsession"
)

// TestSweepKeepsNobodyWaiting makes sessions when a sweep is due, and the sweep does not come to an
// end. The requests are still answered at once. The sweep ends by its own bound, and a later
// request starts another one.
func TestSweepKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakeDB{rows: make(map[string]*fakeRow), slowSweep: true}
		db := sql.OpenDB(fake)
		defer db.Close()
		s, err := sqlsession.New(db, sqlsession.SQLite)
		if err != nil {
			t.Fatal(err)
		}
		create := func(key string) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start := time.Now()
			if _, err := s.Commit(ctx, key, sessionstore.Change{Create: true, TTL: time.Second}); err != nil || time.Since(start) != 0 {
				t.Errorf("%s: %v after %v", key, err, time.Since(start))
			}
		}
		create("a")
		<-time.After(11 * time.Minute)
		create("b")
		create("c")
		<-time.After(11 * time.Minute)
		synctest.Wait()
		fake.mu.Lock()
		fake.slowSweep = false
		fake.mu.Unlock()
		create("d")
		synctest.Wait()
		if len(fake.rows) != 1 {
			t.Errorf("%d rows are left, want the one that lives", len(fake.rows))
		}
	})
}

// TestSweepInBatches: no statement deletes more than a batch, and what was
// deleted before an error counts.
func TestSweepInBatches(t *testing.T) {
	fake, s := open(t)
	for i := range 2500 {
		fake.rows[fmt.Sprint(i)] = &fakeRow{expires: 1}
	}
	fake.rows["lives"] = &fakeRow{}
	before := len(fake.seen)
	if n, err := s.Sweep(t.Context()); n != 2500 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if n := len(fake.seen) - before; n != 3 || len(fake.rows) != 1 {
		t.Errorf("%d statements, %d rows are left", n, len(fake.rows))
	}
	fake.rows["1"] = &fakeRow{expires: 1}
	fake.fail = []error{errors.New("connection reset")}
	if n, err := s.Sweep(t.Context()); n != 0 || err == nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

// TestEmptyValue: nil is a value without bytes, not NULL.
func TestEmptyValue(t *testing.T) {
	_, s := open(t)
	blobs := s.Blobs()
	if done, _, err := blobs.Swap(t.Context(), "k", nil, nil, 0); !done || err != nil {
		t.Fatal(done, err)
	}
	old, err := blobs.Get(t.Context(), "k")
	if err != nil || len(old.Data) != 0 {
		t.Fatal(old, err)
	}
	if done, _, err := blobs.Swap(t.Context(), "k", &old, nil, 0); !done || err != nil {
		t.Error(done, err)
	}
}
