package overhttptest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

// CheckCosts counts what a lock costs in requests, and compares that with the table of a page. The
// first column of the table says what is counted, and the next ones are the kinds of requests:
//
//	| | GET | PUT | US dollars |
//	|---|---|---|---|
//	| a free lock, acquired and released | 2 | 2 | 0.000011 |
//	| a try at a lock that is held | 1 | 0 | 0.0000004 |
//	| an hour of a lock that is held | 360 | 360 | 0.0019 |
//	| an hour of a waiter | 6,900 | 0 | 0.0028 |
//
// counts returns the requests since its last call. The test must run in a bubble of
// testing/synctest, since it takes two hours. A holder and a waiter ask at random times, so their
// rows may differ by a twentieth and a tenth.
func CheckCosts(t *testing.T, page string, kinds []string, counts func() map[string]int, stores [2]driver.Store) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := &table{t, string(text), kinds}
	locker, other := padlock.New(stores[0]), padlock.New(stores[1])
	defer locker.Close(context.Background())
	defer other.Close(context.Background())
	counts()

	lock, err := locker.Acquire(t.Context(), "job")
	if err == nil {
		err = lock.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	table.check("a free lock, acquired and released", counts(), 0)

	if _, err := other.TryAcquire(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	counts()
	if _, err := locker.TryAcquire(t.Context(), "job"); err == nil {
		safety.TwoHold(t, "the lock has a holder already")
		t.FailNow()
	}
	table.check("a try at a lock that is held", counts(), 0)
	<-time.After(time.Hour)
	idle := counts()
	table.check("an hour of a lock that is held", idle, 20)

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := locker.Acquire(ctx, "job"); err == nil {
		safety.TwoHold(t, "the lock has a holder already")
		t.FailNow()
	}
	waiter := counts()
	for _, kind := range kinds {
		waiter[kind] -= idle[kind]
		if n := waiter[kind]; max(n, -n) <= idle[kind]/20+1 {
			waiter[kind] = 0 // the holder renews at random times, too
		}
	}
	table.check("an hour of a waiter", waiter, 10)
}

// A table is on a page.
type table struct {
	t     *testing.T
	page  string
	kinds []string
}

// check checks a row of the table. Its numbers may differ by one in so many, or not at all.
func (b *table) check(what string, requests map[string]int, part int) {
	for line := range strings.Lines(b.page) {
		cells := strings.Split(line, "|")
		if len(cells) < 2+len(b.kinds) || strings.TrimSpace(cells[1]) != what {
			continue
		}
		for i, kind := range b.kinds {
			var said int
			if _, err := fmt.Sscan(strings.ReplaceAll(cells[2+i], ",", ""), &said); err != nil {
				b.t.Errorf("%s: the page says %q %s", what, cells[2+i], kind)
			}
			allowed := 0
			if part > 0 {
				allowed = said/part + 1
			}
			if n := requests[kind]; n < said-allowed || n > said+allowed {
				b.t.Errorf("%s: the page says %d %s; the service has counted %d", what, said, kind, n)
			}
		}
		return
	}
	b.t.Errorf("the page has no row %q; the service has counted %v", what, requests)
}
