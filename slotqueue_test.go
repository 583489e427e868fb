package padlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// queueRemote is a slotRemote that hands permits over to waiters.
type queueRemote struct {
	slotRemote
	mu      sync.Mutex
	waiters []driver.Request
	handed  chan queued // what AwaitSlot returns
}

type queued struct {
	slot int
	g    driver.Grant
	err  error
}

func (r *queueRemote) AwaitSlot(ctx context.Context, q driver.Request, n int) (slot int, g driver.Grant, err error) {
	r.mu.Lock()
	r.waiters = append(r.waiters, q)
	r.mu.Unlock()
	select {
	case got := <-r.handed:
		if got.err != nil || got.g.TTL != 0 {
			return got.slot, got.g, got.err
		}
		q.Name = driver.SlotName(q.Name, got.slot)
		if got.g, err = r.Store.Acquire(ctx, q); err != nil {
			return 0, g, err
		}
		got.g.From = driver.SystemClock().Now()
		return got.slot, got.g, nil
	case <-ctx.Done():
		return 0, g, ctx.Err()
	}
}

// A caller that waits for a permit gets it from the store: it asks for no gate, and does not try
// again. The other callers of the process wait behind it.
func TestSlotIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &queueRemote{slotRemote: slotRemote{newRemote()}, handed: make(chan queued)}
		l := newLocker(t, store)
		held := acquire(t, l, "job", padlock.Slots(1))
		got := make(chan *padlock.Lock)
		for range 2 {
			go func() { got <- acquire(t, l, "job", padlock.Slots(1), padlock.Wait(time.Minute)) }()
			synctest.Wait()
		}
		if len(store.waiters) != 1 || store.waiters[0].Name != "job" {
			t.Errorf("%d callers wait in the store", len(store.waiters))
		}
		tries, began := len(store.log("slot")), time.Now()
		for range 2 {
			release(t, held)
			store.handed <- queued{}
			held = <-got
			if held.Slot() != 0 || held.Fence() == 0 {
				t.Errorf("the permit is %d with the fence %d", held.Slot(), held.Fence())
			}
			synctest.Wait()
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the callers waited for %v after the permits were handed over", waited)
		}
		if n := len(store.log("slot")) - tries; n != 0 || len(store.waiters) != 2 {
			t.Errorf("%d tries of callers that wait, and %d waits", n, len(store.waiters))
		}
		release(t, held)
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("%d names are held, %v", len(states), err)
		}
	})
}

// If the store cannot hand permits over to this call, the call waits for the gate. If the wait is
// over, the error has the holders that the call has seen.
func TestSlotIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &queueRemote{slotRemote: slotRemote{newRemote()}, handed: make(chan queued, 1)}
		l := newLocker(t, store)
		held := acquire(t, l, "job", padlock.Slots(1))
		_, err := l.Acquire(t.Context(), "job", padlock.Slots(1), padlock.Wait(time.Minute))
		var by *padlock.HeldError
		if !errors.As(err, &by) || len(by.Holds) != 1 || len(store.waiters) != 1 {
			t.Errorf("%d waits end with %v", len(store.waiters), err)
		}
		store.handed <- queued{err: errors.ErrUnsupported}
		got := make(chan *padlock.Lock)
		go func() { got <- acquire(t, l, "job", padlock.Slots(1)) }()
		synctest.Wait()
		release(t, held)
		release(t, <-got)
		if len(store.waiters) != 2 {
			t.Errorf("%d waits", len(store.waiters))
		}
	})
}

// A permit that is reserved for a caller whose wait has just ended does not stay held.
func TestSlotIsHandedOverTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &queueRemote{slotRemote: slotRemote{newRemote()}, handed: make(chan queued, 1)}
		l := newLocker(t, store)
		held := acquire(t, l, "job", padlock.Slots(1))
		release(t, held)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		other, err := store.Store.Acquire(t.Context(), driver.Request{Name: driver.SlotName("job", 0), Token: "other", TTL: time.Minute})
		if err != nil || other.TTL == 0 {
			t.Fatal(err)
		}
		over := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "job", padlock.Slots(1))
			over <- err
		}()
		synctest.Wait()
		if _, err := store.Store.Release(t.Context(), driver.SlotName("job", 0), "other", 0); err != nil {
			t.Error(err)
		}
		cancel()
		store.handed <- queued{}
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		<-time.After(5 * time.Second)
		if states, err := l.List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("%d names are held, %v", len(states), err)
		}
	})
}

// Stats.Held is the number of locks. The gate that the first waiter for a permit has is no lock of
// the program.
func TestStatsLeaveOutTheGate(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l, other := newLocker(t, s, padlock.Slots(1)), padlock.NewShared(s)
		k := acquire(t, other, "job", padlock.Slots(1))
		done := make(chan *padlock.Lock)
		go func() { done <- acquire(t, l, "job") }()
		synctest.Wait()
		if st := l.Stats(); st.Held != 0 || st.Waiting != 1 {
			t.Errorf("during the wait: %+v", st)
		}
		release(t, k)
		h := <-done
		synctest.Wait()
		if st := l.Stats(); st.Held != 1 || st.Waiting != 0 {
			t.Errorf("with the permit: %+v", st)
		}
		release(t, h)
		if st := l.Stats(); st.Held != 0 {
			t.Errorf("at the end: %+v", st)
		}
		other.Close(t.Context())
	})
}
