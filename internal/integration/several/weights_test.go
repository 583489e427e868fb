package several

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
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
