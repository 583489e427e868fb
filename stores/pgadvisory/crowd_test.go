package pgadvisory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/pgadvisory"
)

// In one process, the callers share few sessions, and the server lets a session take a lock twice.
// Readers, writers and promoted readers exclude each other all the same.
func TestCrowdInOneProcess(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.SharedPostgres(t)
	s := mustOpen(t, srv.URL(), pgadvisory.NoFences())
	var inside atomic.Int64 // readers, or 1,000 for a writer
	enter := func(n int64) {
		now := inside.Add(n)
		if now > 1000 || n == 1000 && now != n {
			t.Errorf("%d are inside", now)
		}
	}
	var wg sync.WaitGroup
	var writers, readers, promoted atomic.Int64
	for range 24 {
		wg.Go(func() {
			for range 150 {
				r := request("job")
				r.Shared = rand.N(2) == 0
				_, err := s.Acquire(context.Background(), r)
				if errors.Is(err, driver.ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				weight := int64(1000)
				if r.Shared {
					weight = 1
					readers.Add(1)
				} else {
					writers.Add(1)
				}
				enter(weight)
				if r.Shared && rand.N(4) == 0 {
					inside.Add(-1)
					write := r
					write.Shared = false
					if _, err := s.Convert(context.Background(), write); err == nil {
						weight = 1000
						promoted.Add(1)
					}
					enter(weight)
				}
				inside.Add(-weight)
				release(t, s, r)
			}
		})
	}
	wg.Wait()
	t.Logf("%d writers, %d readers, %d promoted", writers.Load(), readers.Load(), promoted.Load())
	if n := readValue[int](t, connect(t, srv.URL()), locks); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}
