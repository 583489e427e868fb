package facetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestSlots(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		seen := map[int]bool{}
		var locks []*padlock.Lock
		for range 3 {
			k, err := l.TryAcquire(t.Context(), "job", padlock.Slots(3), padlock.Label("x"))
			if err != nil {
				t.Fatal(err)
			}
			if stored := storedName(k); stored != fast.SlotName("job", k.Slot()) {
				t.Errorf("the name in the store is %q", stored)
			}
			if k.Name() != "job" {
				t.Errorf("the name is %q", k.Name())
			}
			seen[k.Slot()] = true
			locks = append(locks, k)
		}
		if len(seen) != 3 || !seen[0] || !seen[1] || !seen[2] {
			t.Errorf("the slots are %v, want 0, 1 and 2", seen)
		}
		_, err := l.TryAcquire(t.Context(), "job", padlock.Slots(3))
		var held *padlock.HeldError
		if !errors.As(err, &held) || len(held.Holds) != 3 {
			t.Errorf("a fourth caller gets %v, want an error with three holders", err)
		}
		k, err := l.TryAcquire(t.Context(), "job", padlock.Slots(4))
		if err != nil || k.Slot() != 3 {
			t.Fatalf("with a limit of 4 the next slot is %v, %v", k, err)
		}
		if err := locks[1].Release(); err != nil {
			t.Error(err)
		}
		again, err := l.TryAcquire(t.Context(), "job", padlock.Slots(2))
		if err != nil || again.Slot() != 1 {
			t.Errorf("the free permit is %v, %v", again, err)
		}
	})
}

func TestSlotsWait(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		const slots, callers = 3, 24
		l := newLocker(t, s)
		var inside, most, runs atomic.Int32
		var busy [slots]atomic.Bool
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				k, err := l.Acquire(t.Context(), "job", padlock.Slots(slots))
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				if busy[k.Slot()].Swap(true) {
					safety.TwoHold(t, "two callers have the slot %d", k.Slot())
				}
				runtime.Gosched()
				runs.Add(1)
				busy[k.Slot()].Store(false)
				inside.Add(-1)
				if err := k.Release(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := most.Load(); n > slots {
			safety.TwoHold(t, "%d callers of %d slots", n, slots)
		}
		if n := runs.Load(); n != callers {
			t.Errorf("%d callers ran", n)
		}
	})
}

// Callers that wait get permits in the order in which they asked.
func TestSlotsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		var first []*padlock.Lock
		for range 2 {
			k, err := l.Acquire(t.Context(), "job", padlock.Slots(2))
			if err != nil {
				t.Fatal(err)
			}
			first = append(first, k)
		}
		var order []int
		var mu sync.Mutex
		for i := range 6 {
			go func() {
				k, err := l.Acquire(t.Context(), "job", padlock.Slots(2))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				<-time.After(time.Second)
				k.Release()
			}()
			synctest.Wait()
		}
		first[0].Release()
		<-time.After(10 * time.Second)
		first[1].Release()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, got := range order {
			if got != i {
				t.Fatalf("the order is %v", order)
			}
		}
		if len(order) != 6 {
			t.Errorf("%d callers got a permit, want 6", len(order))
		}
	})
}

func TestSlotsEndOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(t.Context())
		k, err := l.Acquire(t.Context(), "job", padlock.Slots(1))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = l.Acquire(t.Context(), "job", padlock.Slots(1), padlock.Wait(3*time.Second))
		if !errors.Is(err, padlock.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the time of Wait the error is %v", err)
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("the wait took %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err = l.Acquire(ctx, "job", padlock.Slots(1)); !errors.Is(err, padlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline the error is %v", err)
		}
		var e *padlock.Error
		if !errors.As(err, &e) || e.Name != "job" || e.Op != padlock.OpAcquire {
			t.Errorf("the error is %#v", err)
		}
		k.Release()
		synctest.Wait() // the release of the gate
		states, err := l.List(t.Context(), "")
		if err != nil || len(states) != 0 {
			t.Errorf("afterwards the store has %v, %v", states, err)
		}
	})
}

func TestSlotsInvalid(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	for _, opts := range [][]padlock.Option{
		{padlock.Slots(0)}, {padlock.Slots(-3)}, {padlock.Slots(fast.MaxSlots + 1)}, {padlock.Slots(2), padlock.Shared()},
	} {
		if _, err := l.Acquire(t.Context(), "job", opts...); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("%v: %v", opts, err)
		}
	}
	long := string(make([]byte, driver.MaxName-5))
	if _, err := l.Acquire(t.Context(), long, padlock.Slots(2)); !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("a name without room for the slot: %v", err)
	}
}

// A caller inside of a permit could wait for itself.
func TestSlotsWithinThemselves(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	err := l.Do(t.Context(), "job", func(ctx context.Context) error {
		_, err := l.Acquire(ctx, "job", padlock.Slots(2))
		return err
	}, padlock.Slots(2))
	if !errors.Is(err, padlock.ErrAlreadyHeld) {
		t.Errorf("the error is %v", err)
	}
}

func TestSlotsEvents(t *testing.T) {
	var mu sync.Mutex
	var kinds []padlock.EventKind
	l := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, e.Kind)
		if e.Name != "job" {
			t.Errorf("%v is about %q", e.Kind, e.Name)
		}
	})))
	defer l.Close(t.Context())
	k, k2 := acquire(t, l, "job", padlock.Slots(2)), acquire(t, l, "job", padlock.Slots(2))
	k2.Release()
	l.TryAcquire(t.Context(), "job", padlock.Slots(1))
	k.Release()
	want := []padlock.EventKind{
		padlock.EventAcquiring, padlock.EventAcquired, padlock.EventAcquiring, padlock.EventAcquired, padlock.EventReleasing,
		padlock.EventReleased, padlock.EventAcquiring, padlock.EventContended, padlock.EventRefused, padlock.EventReleasing, padlock.EventReleased,
	}
	mu.Lock()
	defer mu.Unlock()
	if len(kinds) != len(want) {
		t.Fatalf("the events are %v, want %v", kinds, want)
	}
	for i := range want {
		if kinds[i] != want[i] {
			t.Fatalf("the events are %v, want %v", kinds, want)
		}
	}
	if s := l.Stats(); s.Acquired != 2 || s.Refused != 1 || s.Contended != 1 || s.Held != 0 {
		t.Errorf("the counts are %+v", s)
	}
}

// An exported permit stays the same permit.
func TestSlotsAdopt(t *testing.T) {
	l := padlock.New(memstore.New(), padlock.Slots(3))
	defer l.Close(t.Context())
	l.Acquire(t.Context(), "job")
	k, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	key, err := k.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	adopted, err := l.Adopt(t.Context(), key)
	if err != nil || adopted.Slot() != 1 || adopted.Name() != "job" {
		t.Errorf("the adopted lock is %v, %v", adopted, err)
	}
}

func TestSlotsClose(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := padlock.New(s)
		if _, err := l.Acquire(t.Context(), "job", padlock.Slots(1)); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		for range 2 {
			go func() {
				_, err := l.Acquire(context.Background(), "job", padlock.Slots(1))
				failed <- err
			}()
		}
		for l.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-failed; !errors.Is(err, padlock.ErrClosed) {
				t.Errorf("a waiter gets %v", err)
			}
		}
	})
}

// A caller does not wait behind one that may take fewer permits.
func TestSlotsOfTwoNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		var locks []*padlock.Lock
		for range 2 {
			k, err := l.Acquire(t.Context(), "job", padlock.Slots(2))
			if err != nil {
				t.Fatal(err)
			}
			locks = append(locks, k)
		}
		few, many := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "job", padlock.Slots(1))
			few <- err
		}()
		synctest.Wait()
		go func() {
			_, err := l.Acquire(t.Context(), "job", padlock.Slots(2))
			many <- err
		}()
		synctest.Wait()
		locks[1].Release()
		synctest.Wait()
		select {
		case err := <-many:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("permit 1 is free, and the caller that may take it waits behind another one")
		}
		locks[0].Release()
		if err := <-few; err != nil {
			t.Error(err)
		}
	})
}

func TestSlotsMany(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	seen := map[int]bool{}
	var last *padlock.Lock
	for range fast.MaxSlots {
		k, err := l.TryAcquire(t.Context(), "job", padlock.Slots(fast.MaxSlots))
		if err != nil {
			t.Fatal(err)
		}
		seen[k.Slot()], last = true, k
	}
	if len(seen) != fast.MaxSlots {
		t.Errorf("there are %d permits", len(seen))
	}
	got := make(chan error)
	go func() {
		_, err := l.Acquire(t.Context(), "job", padlock.Slots(fast.MaxSlots))
		got <- err
	}()
	for l.Stats().Waiting == 0 && l.Stats().Contended == 0 {
		runtime.Gosched()
	}
	if err := last.Release(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// A caller that gets a permit does not wait for the release of the gate, but Close does.
func TestCloseWaitsForTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New()
		other, r := padlock.New(memory), connect(memory)
		defer other.Close(t.Context())
		l := padlock.New(r)
		k, err := other.Acquire(t.Context(), "job", padlock.Slots(1))
		if err != nil {
			t.Fatal(err)
		}
		var left atomic.Bool
		r.request("release", func(_ context.Context, n int) error {
			if n == 0 { // the gate
				<-time.After(3 * time.Second)
				left.Store(true)
			}
			return nil
		})
		got := make(chan *padlock.Lock)
		go func() {
			k, err := l.Acquire(t.Context(), "job", padlock.Slots(1))
			if err != nil {
				t.Error(err)
			}
			got <- k
		}()
		synctest.Wait()
		k.Release()
		mine := <-got
		if left.Load() {
			t.Error("the caller waited for the release of the gate")
		}
		synctest.Wait() // until the gate is being released
		mine.Release()
		if err := l.Close(t.Context()); err != nil || !left.Load() {
			t.Errorf("Close did not wait for the release of the gate: %v", err)
		}
		if states, err := other.List(t.Context(), ""); err != nil || len(states) != 0 {
			t.Errorf("%+v is left behind, %v", states, err)
		}
	})
}

// placed is a store with places that a test chooses.
type placed struct {
	driver.Store
	at func(name string) string
}

func (p placed) Location(name string) (string, error)  { return p.at(name), nil }
func (placed) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }
func (placed) SamePlace(driver.Store) bool             { return false }
func (p placed) Unwrap() driver.Store                  { return p.Store }
func (p placed) Guarantees() driver.Guarantees {
	g := p.Store.Guarantees()
	g.Hashed = true
	g.Lacks |= driver.AbilityStoreID
	return g
}

// A permit in the place of the gate is refused, because a caller at the gate would wait for itself.
// Permits that share a place are fewer, which does no harm.
func TestSlotsAndGateInOnePlace(t *testing.T) {
	gate := fast.SlotGate("job", 3)
	for _, c := range []struct {
		at   func(name string) string
		want error
	}{
		{func(name string) string { return name }, nil},
		{func(name string) string { return map[bool]string{true: "gate", false: "permit"}[name == gate] }, nil},
		{func(name string) string {
			return map[bool]string{true: "gate"}[name == gate || name == fast.SlotName("job", 2)]
		}, padlock.ErrInvalid},
	} {
		rec := &recorder{}
		l := padlock.New(placed{memstore.New(), c.at}, padlock.Observe(padlock.ObserverFunc(rec.on)))
		l.ShowNames(func(string) string { return "hidden" })
		if _, err := l.Acquire(t.Context(), "job", padlock.Slots(3)); !errors.Is(err, c.want) {
			t.Errorf("the error is %v, want %v", err, c.want)
		}
		for _, e := range rec.all() {
			if strings.Contains(fmt.Sprint(e), "job") {
				t.Errorf("an event shows the name: %v", e)
			}
		}
		l.Close(t.Context())
	}
}

// MaxWaiters bounds the callers that wait for a permit, too. The caller that has the gate is one of
// them.
func TestMaxWaitersWithSlots(t *testing.T) {
	for _, most := range []int{0, 1, 2} {
		everyKind(t, func(t *testing.T, s padlock.Store) {
			l := newLocker(t, s, padlock.MaxWaiters(most), padlock.Slots(1))
			k := acquire(t, l, "job")
			refused := make(chan error, 5)
			for range 5 {
				go func() {
					h, err := l.Acquire(context.Background(), "job")
					if err == nil {
						err = h.Release()
					}
					refused <- err
				}()
				synctest.Wait()
			}
			if n := len(refused); n != 5-most {
				t.Fatalf("%d callers are refused, and %d may wait", n, most)
			}
			for range 5 - most {
				wantOnly(t, <-refused, "acquire", padlock.ErrTooManyWaiters)
			}
			if n := l.Stats().Waiting; n != most {
				t.Errorf("%d callers wait, want %d", n, most)
			}
			release(t, k)
			for range most {
				if err := <-refused; err != nil {
					t.Error(err)
				}
			}
			if n := l.Stats().Waiting; n != 0 {
				t.Errorf("%d callers wait at the end", n)
			}
		})
	}
}
