package facetest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/stores/memstore"
)

// ordered is a store with a queue, which takes no permit in one step. It counts some requests.
type ordered struct {
	driver.Store
	driver.Waiter
	driver.Admin
	waits, looks atomic.Int64
	stolen       atomic.Pointer[string] // a name that another caller takes when this name is tried next
}

func newOrdered() *ordered {
	s := memstore.New()
	return &ordered{Store: s, Waiter: s, Admin: s}
}

func (s *ordered) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if name := s.stolen.Load(); name != nil && *name == r.Name {
		s.stolen.Store(nil)
		if _, err := s.Store.Acquire(ctx, driver.Request{Name: r.Name, Token: driver.TokenOf("thief"), TTL: 30 * time.Second}); err != nil {
			return driver.Grant{}, err
		}
	}
	return s.Store.Acquire(ctx, r)
}

func (s *ordered) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if _, slot, ok := fast.SplitSlot(r.Name); ok && slot >= 0 {
		s.waits.Add(1)
	}
	return s.Waiter.Wait(ctx, r, reserve)
}

func (s *ordered) Inspect(ctx context.Context, name string) (driver.State, error) {
	s.looks.Add(1)
	return s.Admin.Inspect(ctx, name)
}

// A process that takes a permit again and again waits behind those that came before it, although it
// asks at the very moment in which a permit is free.
func TestSlotsInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOrdered()
		const processes, rounds = 5, 20
		var order []int
		done := make(chan struct{})
		for i := range processes {
			l := padlock.New(s, padlock.KeepStoreOpen(), padlock.Slots(1))
			go func() {
				for range rounds {
					k, err := l.Acquire(context.Background(), "job")
					if err != nil {
						t.Error(err)
						break
					}
					order = append(order, i) // only the holder writes
					<-time.After(time.Second)
					if err := k.Release(); err != nil {
						t.Error(err)
					}
				}
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		for range processes {
			<-done
		}
		for i, who := range order {
			if who != i%processes {
				t.Fatalf("turn %d of %v is out of order", i, order)
			}
		}
	})
}

// A caller that does not wait, or that may skip, does not look at the gate.
func TestOnlyCallersThatWaitLookAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOrdered()
		l := padlock.New(s, padlock.KeepStoreOpen(), padlock.Slots(2))
		for i, opts := range [][]padlock.Option{{padlock.Wait(0)}, {padlock.SkipIfOutlived(), padlock.Wait(time.Second)}, {}} {
			k := acquire(t, l, "job", opts...)
			if n := s.looks.Load(); n != int64(i/2) {
				t.Errorf("%d looks after %d calls", n, i+1)
			}
			release(t, k)
		}
	})
}

// While the caller at the gate tries the permits again, its waits for the other permits go on.
func TestEachPermitIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOrdered()
		l, other := padlock.New(s, padlock.KeepStoreOpen(), padlock.Slots(4)), padlock.New(s, padlock.KeepStoreOpen(), padlock.Slots(4))
		var held []*padlock.Lock
		for range 4 {
			held = append(held, acquire(t, other, "job"))
		}
		got := make(chan *padlock.Lock)
		go func() { got <- acquire(t, l, "job") }()
		synctest.Wait()
		if n := s.waits.Load(); n != 4 {
			t.Errorf("%d waits for 4 permits", n)
		}
		name := fast.SlotName("job", held[2].Slot())
		s.stolen.Store(&name)
		release(t, held[2])
		synctest.Wait()
		if n := s.waits.Load(); n != 5 || s.stolen.Load() != nil {
			t.Errorf("%d waits after another caller has taken the permit", n)
		}
		release(t, held[0])
		release(t, <-got)
		for _, k := range slices.Concat(held[1:2], held[3:]) {
			release(t, k)
		}
	})
}

// Stats.Held is the number of locks. The gate that the first waiter for a permit has is no lock of
// the program.
func TestStatsLeaveOutTheGate(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l, other := newLocker(t, s, padlock.Slots(1)), padlock.New(s, padlock.KeepStoreOpen())
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

// A caller that has waited for a permit is no longer counted as a waiter.
func TestWaitersForPermitsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote(), padlock.MaxWaiters(1))
		k := acquire(t, l, "job", padlock.Slots(1))
		for range 3 {
			_, err := l.Acquire(t.Context(), "job", padlock.Slots(1), padlock.Wait(time.Second))
			wantOnly(t, err, padlock.OpAcquire, padlock.ErrHeld)
		}
		if n := l.Stats().Waiting; n != 0 {
			t.Errorf("%d callers wait", n)
		}
		release(t, k, nil)
	})
}
