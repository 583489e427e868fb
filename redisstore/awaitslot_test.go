package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/redisstore"
)

// Permits are handed over between clients, with both layouts. There are never more holders than
// permits. A caller with HoldAtLeast waits for the gate itself, as an older padlock does, in the
// same queue.
func TestPermitsPassBetweenClients(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		store []redisstore.Option
		other []padlock.Option // the options of every other client
	}{
		{name: "set"},
		{name: "string", store: []redisstore.Option{redisstore.PlainStrings()}},
		{name: "set, others wait for the gate", other: []padlock.Option{padlock.HoldAtLeast(driver.MinTTL)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := server.Redis(t, server.RedisOptions{})
			var clients []*padlock.Locker
			for range 16 {
				clients = append(clients, padlock.NewShared(opened(t, srv.Addr(), c.store...)))
			}
			// A process that stands still for longer than a reservation loses its permit. Then the
			// figures say nothing.
			for range 5 {
				done, most, lost := passPermits(t, clients, c.other)
				if lost > 0 {
					t.Logf("%d permits were lost; once more", lost)
					continue
				}
				if done != 160 || most > 3 {
					t.Errorf("%d sections ran, at most %d together", done, most)
				}
				return
			}
			t.Error("in each of five runs, a permit was lost")
		})
	}
}

// passPermits lets each client take one of three permits ten times. It returns how many sections
// ran, how many of them ran at the same time at most, and how many permits were lost. Every other
// client has the given options.
func passPermits(t *testing.T, clients []*padlock.Locker, other []padlock.Option) (done, most, lost int64) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var inside int64
	var all sync.WaitGroup
	for i, l := range clients {
		opts := []padlock.Option{padlock.Slots(3)}
		if i%2 == 1 {
			opts = append(opts, other...)
		}
		all.Go(func() {
			for range 10 {
				err := l.Do(ctx, "job", func(context.Context) error {
					mu.Lock()
					inside++
					done++
					most = max(most, inside)
					mu.Unlock()
					<-time.After(time.Millisecond)
					mu.Lock()
					inside--
					mu.Unlock()
					return nil
				}, opts...)
				switch {
				case errors.Is(err, padlock.ErrLost):
					mu.Lock()
					lost++
					mu.Unlock()
				case err != nil:
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	return done, most, lost
}

// A caller that wants permit 0 gets it, although callers with a greater number of permits hand all
// permits over to each other.
func TestOneOfFewerPermits(t *testing.T) {
	t.Parallel()
	srv := server.Redis(t, server.RedisOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	busy, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var taken atomic.Int64
	started := make(chan struct{})
	for range 6 {
		l := padlock.NewShared(opened(t, srv.Addr()))
		all.Go(func() {
			for busy.Err() == nil {
				_ = l.Do(busy, "job", func(context.Context) error {
					if taken.Add(1) == 20 {
						close(started)
					}
					<-time.After(time.Millisecond)
					return nil
				}, padlock.Slots(2))
			}
		})
	}
	<-started
	k, err := padlock.NewShared(opened(t, srv.Addr())).Acquire(ctx, "job", padlock.Slots(1))
	if err != nil {
		t.Errorf("a caller with one permit: %v", err)
	} else if err := k.Release(); err != nil || k.Slot() != 0 {
		t.Errorf("permit %d: %v", k.Slot(), err)
	}
	stop()
	all.Wait()
}
