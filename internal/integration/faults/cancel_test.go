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

// T-C1: a thousand acquires are cancelled on their way. What the clean-up has
// no room for, and counts as dropped, lapses with its lease; nothing else is
// left when the Locker has closed, and then nothing at all.
func TestTC1ThousandCancels(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	for _, members := range []int{1, 5} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			r := newRack(t, members)
			c := r.client()
			var s driver.Store = c.Store
			if members == 1 {
				s = c.members[0]
			}
			l := padlock.New(s, padlock.SharedStore(), padlock.TTL(ttl))
			cancelled := cancelAThousand(t, l)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := l.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
			if cancelled < 200 {
				t.Errorf("only %d of 1000 were cancelled", cancelled)
			}
			dropped := l.Stats().CleanUpsDropped
			if st, err := r.direct(0).List(t.Context(), ""); err != nil || members == 1 && uint64(len(st)) > dropped {
				t.Errorf("%d clean-ups were dropped, and %d names are taken: %v", dropped, len(st), err)
			}
			r.nothingLeft()
			t.Logf("%d of 1000 were cancelled before they had the lock, %d clean-ups were dropped", cancelled, dropped)
		})
	}
}

func cancelAThousand(t *testing.T, l *padlock.Locker) int64 {
	var cancelled atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(rand.N(6*time.Millisecond), cancel)
				lock, err := l.Acquire(ctx, fmt.Sprintf("job %d", i/2)) // two contend for each
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
