package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// T-C1: a thousand acquires are cancelled under way, and nothing is left. Leases last a minute, so
// the clean-up removes the holds before they expire. A Locker does at most 64 clean-ups at a time
// and leaves further ones to the lease, so the callers here wait for it.
func TestTC1ThousandCancels(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 5} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			r := newRack(t, members)
			c := r.client()
			var s driver.Store = c.Store
			if members == 1 {
				s = c.members[0]
			}
			l := padlock.New(s, padlock.KeepStoreOpen(), padlock.TTL(50*time.Second))
			cancelled := cancelAThousand(t, l)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := l.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
			st := l.Stats()
			if cancelled < 200 || st.Uncertain < 50 || st.CleanUpsDropped > 0 {
				t.Errorf("of 1000, %d were cancelled, %d with an uncertain outcome, of which %d were not cleaned up", cancelled, st.Uncertain, st.CleanUpsDropped)
			}
			r.nothingLeft()
			t.Logf("of 1000, %d were cancelled, %d with an uncertain outcome", cancelled, st.Uncertain)
		})
	}
}

func cancelAThousand(t *testing.T, l *padlock.Locker) int64 {
	var cancelled atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { // these 20 and the 43 below stay under the 64
			for range 50 {
				for l.Stats().CleanUps > 43 && t.Context().Err() == nil {
					<-time.After(5 * time.Millisecond)
				}
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(rand.N(6*time.Millisecond), cancel)
				lock, err := l.Acquire(ctx, fmt.Sprintf("job %d", i/2)) // two callers for each name
				switch {
				case err == nil:
					if err := lock.Release(); err != nil {
						t.Errorf("Release: %v", err)
					}
				case errors.Is(err, context.Canceled):
					cancelled.Add(1)
				case silence(err): // a quorum that has too much to clean up takes no more
				default:
					t.Errorf("Acquire: %v", err)
				}
				stop.Stop()
				cancel()
			}
		})
	}
	wg.Wait()
	return cancelled.Load()
}
