package faults

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

// Five processes try one name at the same instant, on a quorum of three. In each round one of them
// gets it.
func TestSplitVotes(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	members := url.Values{}
	for range 3 {
		members.Add("store", "redis://"+server.Redis(t, server.RedisOptions{}).Addr())
	}
	var lockers []*padlock.Locker
	for range 5 {
		s, err := all.Store(t.Context(), "quorum:?"+members.Encode())
		if err != nil {
			t.Fatal(err)
		}
		l := padlock.New(s)
		t.Cleanup(func() { l.Close(context.Background()) })
		lockers = append(lockers, l)
	}
	const rounds = 200
	nobody, others := 0, map[string]int{}
	for round := range rounds {
		var winners []*padlock.Lock
		var mu sync.Mutex
		var processes sync.WaitGroup
		start := make(chan struct{})
		for _, l := range lockers {
			processes.Go(func() {
				<-start
				lock, err := l.TryAcquire(t.Context(), "job"+strconv.Itoa(round))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					winners = append(winners, lock)
				case !errors.Is(err, padlock.ErrHeld):
					others[err.Error()]++
				}
			})
		}
		close(start)
		processes.Wait()
		if len(winners) == 0 {
			nobody++
		}
		for _, lock := range winners {
			if err := lock.Release(); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
	}
	if nobody > 0 || len(others) > 0 {
		t.Errorf("%d of %d rounds without a holder, errors %v", nobody, rounds, others)
	}
}
