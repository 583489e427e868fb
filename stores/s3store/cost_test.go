package s3store_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
)

// The table of the page says what the service counts. A holder and a waiter ask at random times, so
// their rows may differ by a twentieth and a tenth.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		store, _ := s.open(t)
		locker := padlock.New(store)
		defer locker.Close(context.Background())
		rival, _ := s.open(t)
		waiting := padlock.New(rival)
		defer waiting.Close(context.Background())
		s.requests()

		lock, err := locker.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		inTable(t, "a free lock, acquired and released", s.requests(), 0)

		if _, err := waiting.TryAcquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		s.requests()
		if _, err := locker.TryAcquire(t.Context(), "job"); err == nil {
			t.Fatal("the lock has two holders")
		}
		inTable(t, "a try at a lock that is held", s.requests(), 0)
		<-time.After(time.Hour)
		idle := s.requests()
		inTable(t, "an hour of a lock that is held", idle, 20)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := locker.Acquire(ctx, "job"); err == nil {
			t.Fatal("the lock has two holders")
		}
		both := s.requests()
		puts := both["PUT"] - idle["PUT"]
		if max(puts, -puts) <= idle["PUT"]/20+1 {
			puts = 0 // the holder renews at random times too
		}
		inTable(t, "an hour of a waiter", map[string]int{"GET": both["GET"] - idle["GET"], "PUT": puts}, 10)
	})
}

// inTable checks a row of the page: | what | GET | PUT | dollars |. The numbers may differ by
// one in so many, or not at all.
func inTable(t *testing.T, what string, requests map[string]int, part int) {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.TrimSpace(cells[1]) != what {
			continue
		}
		for i, method := range []string{"GET", "PUT"} {
			var said int
			fmt.Sscan(strings.ReplaceAll(cells[2+i], ",", ""), &said)
			allowed := 0
			if part > 0 {
				allowed = said/part + 1
			}
			if n := requests[method]; n < said-allowed || n > said+allowed {
				t.Errorf("%s: the page says %d %s; the service has counted %d", what, said, method, n)
			}
		}
		return
	}
	t.Errorf("the page has no row %q; the service has counted %v", what, requests)
}
