package dynamostore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The table of the page says what the service counts. A holder and a waiter ask at random times, so
// their rows may differ by a twentieth and a tenth.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		store, _ := open(t, s)
		locker := padlock.New(store)
		defer locker.Close(context.Background())
		rival, _ := open(t, s)
		waiting := padlock.New(rival)
		defer waiting.Close(context.Background())
		s.Counts()

		lock, err := locker.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		inTable(t, "a free lock, acquired and released", s.Counts(), 0)

		if _, err := waiting.TryAcquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		s.Counts()
		if _, err := locker.TryAcquire(t.Context(), "job"); err == nil {
			t.Fatal("the lock has two holders")
		}
		inTable(t, "a try at a lock that is held", s.Counts(), 0)
		<-time.After(time.Hour)
		idle := s.Counts()
		inTable(t, "an hour of a lock that is held", idle, 20)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := locker.Acquire(ctx, "job"); err == nil {
			t.Fatal("the lock has two holders")
		}
		both := s.Counts()
		puts := both["PutItem"] - idle["PutItem"]
		if max(puts, -puts) <= idle["PutItem"]/20+1 {
			puts = 0 // the holder renews at random times too
		}
		inTable(t, "an hour of a waiter", map[string]int{"GetItem": both["GetItem"] - idle["GetItem"], "PutItem": puts}, 10)
	})
}

// inTable checks a row of the page: | what | GetItem | PutItem | dollars |. The numbers may differ
// by one in so many, or not at all.
func inTable(t *testing.T, what string, requests map[string]int, part int) {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores/dynamodb.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.TrimSpace(cells[1]) != what {
			continue
		}
		for i, method := range []string{"GetItem", "PutItem"} {
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
