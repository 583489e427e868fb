package drivertest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock/driver"
)

func BenchmarkReference(b *testing.B) { Benchmark(b, newWorld("").harness()) }

func TestBenchTokensDiffer(t *testing.T) {
	token := newToken()
	var seen []string
	for i := range 1000 {
		next := benchToken(token, i)
		if len(next) != len(token) || slices.Contains(seen, next) {
			t.Fatalf("token %d is %q after %q", i, next, token)
		}
		seen = append(seen, next)
	}
}

// TestBenchTurns hands a name over as the contended benchmark does, on a store whose waiting works
// and on one that has none.
func TestBenchTurns(t *testing.T) {
	for _, waits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld("")
			w.trip = time.Millisecond // so that others come meanwhile
			r, err := start(w.harness())
			if err != nil {
				t.Fatal(err)
			}
			r.has.wait = waits
			s := counting{Store: r.a, inside: new(atomic.Int64), most: new(atomic.Int64), refused: new(atomic.Int64)}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 20 {
						if err := r.benchTurn(s, "name"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			if wg.Wait(); s.most.Load() != 1 || s.refused.Load() == 0 {
				t.Errorf("with waiting %v, %d had the name at once, %d were refused", waits, s.most.Load(), s.refused.Load())
			}
		})
	}
}

// counting is a store that counts how many callers have the name at once, and how many were
// refused.
type counting struct {
	driver.Store
	inside, most, refused *atomic.Int64
}

func (s counting) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	if err != nil {
		s.refused.Add(1)
	} else {
		s.most.Store(max(s.most.Load(), s.inside.Add(1)))
	}
	return g, err
}

func (s counting) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	s.inside.Add(-1)
	return s.Store.Release(ctx, name, token, keep)
}

func (s counting) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	return ability[driver.Waiter](s.Store).Wait(ctx, r, reserve)
}
