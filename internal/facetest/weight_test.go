package facetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// plainStore is a store that has no fast.SlotTaker, but a queue.
type plainStore struct {
	driver.Store
	driver.Waiter
	driver.Admin
}

func withoutSlotTaker() driver.Store {
	s := memstore.New()
	return plainStore{s, s, s}
}

func eachWeighted(t *testing.T, f func(t *testing.T, s driver.Store)) {
	t.Run("in one step", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, memstore.New()) }) })
	t.Run("singly", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, withoutSlotTaker()) }) })
}

func TestWeight(t *testing.T) {
	eachWeighted(t, func(t *testing.T, s driver.Store) {
		l := newLocker(t, s)
		three, err := l.AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(5), padlock.Weight(3))
		if err != nil {
			t.Fatal(err)
		}
		if got := three.Slots(); len(got) != 3 || !slices.Equal(three.Names(), []string{"gpu"}) || three.Check(t.Context()) != nil {
			t.Errorf("slots %v, names %v, %v", got, three.Names(), three.Check(t.Context()))
		}
		var held *padlock.HeldError
		_, err = l.AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(5), padlock.Weight(3), padlock.Wait(0))
		if !errors.As(err, &held) {
			t.Errorf("six of five units: %v", err)
		}
		two, err := l.AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(5), padlock.Weight(2), padlock.Wait(0))
		if err != nil {
			t.Fatalf("the refused call left permits behind: %v", err)
		}
		if both := append(three.Slots(), two.Slots()...); len(both) != 5 {
			t.Errorf("the permits are %v", both)
		}
		if _, err := l.TryAcquire(t.Context(), "gpu", padlock.Slots(5)); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("a sixth unit: %v", err)
		}
		if _, err := l.AcquireAll(two.Context(), []string{"gpu"}, padlock.Slots(5), padlock.Weight(1)); !errors.Is(err, padlock.ErrAlreadyHeld) {
			t.Errorf("inside: %v", err)
		}
		if err := errors.Join(three.Release(), two.Release()); err != nil {
			t.Error(err)
		}
		err = l.DoAll(t.Context(), []string{"gpu"}, func(ctx context.Context) error {
			if padlock.GrantFrom(ctx).Fence() == 0 {
				t.Error("no fence")
			}
			return ctx.Err()
		}, padlock.Slots(5), padlock.Weight(5))
		if err != nil {
			t.Errorf("all units: %v", err)
		}
	})
}

func TestWeightRefuses(t *testing.T) {
	l := newLocker(t, memstore.New())
	for _, opts := range [][]padlock.Option{
		{padlock.Weight(1)}, {padlock.Slots(3), padlock.Weight(0)}, {padlock.Slots(3), padlock.Weight(-1)}, {padlock.Slots(3), padlock.Weight(4)},
		{padlock.Slots(0), padlock.Weight(1)}, {padlock.Slots(3), padlock.Weight(2), padlock.Paths()}, {padlock.Slots(3), padlock.Weight(2), padlock.Shared()},
	} {
		if _, err := l.AcquireAll(t.Context(), []string{"a"}, opts...); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("%v: %v", opts, err)
		}
	}
	if _, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.Slots(3), padlock.Weight(2)); !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("two names: %v", err)
	}
	if _, err := l.Acquire(t.Context(), "a", padlock.Slots(3), padlock.Weight(2)); !errors.Is(err, padlock.ErrInvalid) {
		t.Errorf("Acquire: %v", err)
	}
}

// takeAny runs work with permits of "gpu": with one, taken without a weight, if weight is 0.
func takeAny(ctx context.Context, l *padlock.Locker, n, weight int, work func(context.Context) error) error {
	if weight == 0 {
		return l.Do(ctx, "gpu", work, padlock.Slots(n))
	}
	return l.DoAll(ctx, []string{"gpu"}, work, padlock.Slots(n), padlock.Weight(weight))
}

// Callers that wait are served in the order of arrival, with a weight or without. Each one excludes the
// next one.
func TestLargeRequestsWaitInTheOrderOfArrival(t *testing.T) {
	eachWeighted(t, func(t *testing.T, s driver.Store) {
		l := newLocker(t, s)
		var mu sync.Mutex
		var arrived, served []int
		var wg sync.WaitGroup
		for i, weight := range []int{3, 0, 3, 0, 3, 2, 2, 3, 1, 3, 0, 3} {
			arrived = append(arrived, i)
			wg.Go(func() {
				err := takeAny(t.Context(), l, 3, weight, func(context.Context) error {
					mu.Lock()
					served = append(served, i)
					mu.Unlock()
					<-time.After(time.Duration(i%3+1) * time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.Equal(served, arrived) {
			t.Errorf("the order is %v", served)
		}
	})
}

// Each EventAcquiring has its EventAcquired or EventRefused. That holds even if a permit is lost just before the last
// one is got.
func TestWeightIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		l := padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(rec.on)))
		other := acquire(t, l, "gpu", padlock.Slots(2))
		go func() {
			<-time.After(1500 * time.Millisecond)
			other.Release()
		}()
		_, err := l.AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(2), padlock.Weight(2), padlock.NoRenewal(), padlock.TTL(time.Second))
		if !errors.Is(err, padlock.ErrLost) {
			t.Fatalf("a permit whose lease has ended: %v", err)
		}
		all, err := l.AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(2), padlock.Weight(2))
		if err != nil {
			t.Fatal(err)
		}
		all.Release()
		l.Close(t.Context())
		open := 0
		for _, e := range rec.all() {
			switch e.Kind {
			case padlock.EventAcquiring:
				open++
			case padlock.EventAcquired, padlock.EventRefused:
				open--
			}
			if open < 0 || open > 1 {
				t.Fatalf("%d acquires are under way after %+v", open, e)
			}
		}
		if open != 0 {
			t.Errorf("%d acquires are under way at the end", open)
		}
	})
}

// breakGate makes the gates of a name end while calls wait behind them.
func breakGate(ctx context.Context, s driver.Store, name string, n int) {
	admin, _ := driver.As[driver.Admin](s)
	for _, gate := range []string{fmt.Sprintf("%s\x1fslots:0", name), fmt.Sprintf("%s\x1fslots:%d", name, n)} {
		if state, err := admin.Inspect(ctx, gate); err == nil && len(state.Holds) > 0 {
			admin.Break(ctx, gate, state.Fence)
		}
	}
}

// TestWeightsAtRandom has random weights on ten slots. Callers die, gates are broken, and callers name
// different n. There are never more units than n, and everybody who waits without a limit is served.
func TestWeightsAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			eachWeighted(t, func(t *testing.T, s driver.Store) { weigh(t, s, seed, true) })
		})
	}
}

// Without deaths, nobody waits for ever for a caller that waits for him.
func TestWeightsDoNotWaitInACircle(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			eachWeighted(t, func(t *testing.T, s driver.Store) { weigh(t, s, seed, false) })
		})
	}
}

// permits are those of a name that somebody believes to have.
type permits struct {
	mu   sync.Mutex
	held map[int]bool
}

func (p *permits) enter(t *testing.T, slots []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range slots {
		if p.held[slot] || slot >= 10 {
			safety.TwoHold(t, "permit %d", slot)
		}
		p.held[slot] = true
	}
}

func (p *permits) leave(slots []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range slots {
		delete(p.held, slot)
	}
}

func weigh(t *testing.T, s driver.Store, seed uint64, deaths bool) {
	p := &permits{held: map[int]bool{}}
	var wg sync.WaitGroup
	for c := range uint64(6) {
		wg.Go(func() { weighOnce(t, s, p, rand.New(rand.NewPCG(seed, c)), deaths) })
	}
	wg.Wait()
	l := newLocker(t, s)
	all, err := l.AcquireAll(t.Context(), []string{"gpu"}, padlock.Slots(10), padlock.Weight(10), padlock.Wait(time.Minute))
	if err != nil {
		t.Fatalf("all units at the end: %v", err)
	}
	all.Release()
}

// weighOnce is one process.
func weighOnce(t *testing.T, s driver.Store, p *permits, r *rand.Rand, deaths bool) {
	o := padlock.Wait(10 * time.Minute) // otherwise they wait for each other
	if deaths {
		o = padlock.NoRenewal()
	}
	l := padlock.New(s, padlock.KeepStoreOpen(), padlock.TTL(2*time.Second))
	defer l.Close(context.Background())
	for range 12 {
		n, ctx, cancel := 10-2*r.IntN(2), t.Context(), context.CancelFunc(func() {})
		if r.IntN(4) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
		}
		all, err := l.AcquireAll(ctx, []string{"gpu"}, padlock.Slots(n), padlock.Weight(1+r.IntN(8)), o)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && !(deaths && errors.Is(err, padlock.ErrLost)) {
				t.Error(err)
			}
			continue
		}
		p.enter(t, all.Slots())
		dies := r.IntN(5) == 0 && deaths
		if r.IntN(6) == 0 {
			breakGate(t.Context(), s, "gpu", n)
		}
		work := time.Duration(r.IntN(800)) * time.Millisecond
		if dies {
			work = time.Hour
		}
		select {
		case <-all.Context().Done():
		case <-time.After(work):
		}
		if p.leave(all.Slots()); !dies {
			all.Release()
		}
	}
}
