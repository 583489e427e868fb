package several

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
)

// Callers of two processes share five units.
func (s site) weights(t *testing.T) {
	const units = 5
	lockers := []*padlock.Locker{s.locker(t), s.locker(t)}
	job := name("weights")
	var inside [units]atomic.Pointer[padlock.Locks] // of the caller that has the unit
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2312, uint64(i)))
			for range 4 {
				all, err := lockers[i%2].AcquireAll(t.Context(), []string{job}, padlock.Slots(units), padlock.Weight(1+r.IntN(4)))
				if err != nil {
					t.Error(err)
					return
				}
				for _, slot := range all.Slots() {
					if other := inside[slot].Swap(all); other != nil && other.Remaining() > 0 && all.Remaining() > 0 {
						safety.TwoHold(t, "two callers have permit %d", slot)
					}
				}
				<-time.After(2 * time.Millisecond)
				for _, slot := range all.Slots() {
					inside[slot].CompareAndSwap(all, nil)
				}
				if err := all.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := lockers[0].AcquireAll(t.Context(), []string{job}, padlock.Slots(units), padlock.Weight(units), padlock.Wait(time.Minute))
	if err != nil {
		t.Fatalf("all units: %v", err)
	}
	if err := all.Release(); err != nil {
		t.Error(err)
	}
}

// Callers of several processes are served in the order of arrival, with a weight or without: nobody who
// comes later is served before a large request. Each one excludes the next one.
func (s site) weightsInOrder(t *testing.T) {
	const units = 2
	job, watch := name("weights-in-order"), s.locker(t)
	all, err := watch.AcquireAll(t.Context(), []string{job}, padlock.Slots(units), padlock.Weight(units))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var arrived, served []int
	var wg sync.WaitGroup
	for i, weight := range []int{0, 2, 0, 2, 0} {
		l := s.locker(t)
		arrived = append(arrived, i)
		wg.Go(func() {
			work := func(context.Context) error {
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
				return nil
			}
			var err error
			if weight == 0 {
				err = l.Do(t.Context(), job, work, padlock.Slots(units))
			} else {
				err = l.DoAll(t.Context(), []string{job}, work, padlock.Slots(units), padlock.Weight(weight))
			}
			if err != nil {
				t.Error(err)
			}
		})
		for waiting := 0; waiting <= i && t.Context().Err() == nil; {
			gate, err := watch.Inspect(t.Context(), fast.SlotGate(job, units))
			second, also := watch.Inspect(t.Context(), fast.SlotGate(job, 0))
			if err := errors.Join(err, also); err != nil {
				t.Fatal(err)
			}
			waiting = len(gate.Holds) + gate.Waiters + second.Waiters
		}
	}
	if err := all.Release(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if !slices.Equal(served, arrived) {
		t.Errorf("the order is %v", served)
	}
}
