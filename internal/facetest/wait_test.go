package facetest

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// stores are the ways in which a store may help waiters, or not.
func stores() map[string]padlock.Store {
	refuses := newRemote()
	refuses.guarantees.Lacks |= driver.AbilityWaiter
	refuses.request("wait", func(context.Context, int) error { panic("Wait is called, and the store lacks it") })
	return map[string]padlock.Store{
		"in process":                   memstore.New(memstore.MaxTTL(driver.MaxTTL)),
		"queue in the store":           newRemote(),
		"passes on":                    relay{newRemote()},
		"no queue in the store":        bare{newRemote()},
		"a queue that the store lacks": refuses,
	}
}

// everyKind runs f in a bubble for each kind of store.
func everyKind(t *testing.T, f func(t *testing.T, s padlock.Store)) {
	for name := range stores() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, stores()[name]) })
		})
	}
}

func TestWaitersGetTheirTurnInOrder(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				h := acquire(t, l, "job")
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				<-time.After(time.Millisecond)
				release(t, h)
			})
			synctest.Wait()
		}
		release(t, h)
		wg.Wait()
		if len(order) != 20 || !slices.IsSorted(order) {
			t.Errorf("they came in the order 0 to 19, and had their turns in the order %v", order)
		}
		if s := l.Stats(); s.Waiting != 0 || s.Held != 0 || s.Contended != 20 {
			t.Errorf("%+v", s)
		}
	})
}

// A wait ends with the time of Wait or with the context, whichever ends first.
func TestBoundsOfAWait(t *testing.T) {
	held := []error{padlock.ErrHeld}
	byCtx := []error{padlock.ErrHeld, context.DeadlineExceeded}
	for name, c := range map[string]struct {
		opts    []padlock.Option
		timeout time.Duration
		want    []error
		after   time.Duration
	}{
		"Wait":             {opts: []padlock.Option{padlock.Wait(3 * time.Second)}, want: held, after: 3 * time.Second},
		"Wait(0)":          {opts: []padlock.Option{padlock.Wait(0)}, want: held},
		"context":          {timeout: 2 * time.Second, want: byCtx, after: 2 * time.Second},
		"Wait, context":    {opts: []padlock.Option{padlock.Wait(time.Second)}, timeout: 2 * time.Second, want: held, after: time.Second},
		"context, Wait":    {opts: []padlock.Option{padlock.Wait(3 * time.Second)}, timeout: 2 * time.Second, want: byCtx, after: 2 * time.Second},
		"the longest Wait": {opts: []padlock.Option{padlock.Wait(1<<63 - 1)}, timeout: 2 * time.Second, want: byCtx, after: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, func(t *testing.T, s padlock.Store) {
				l := newLocker(t, s)
				defer acquire(t, l, "job").Release()
				ctx := context.Background()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				var wg sync.WaitGroup
				for range 3 { // the head of the line, and two behind it
					wg.Go(func() {
						start := time.Now()
						_, err := l.Acquire(ctx, "job", c.opts...)
						wantOnly(t, err, "acquire", c.want...)
						if d := time.Since(start); d != c.after {
							t.Errorf("Acquire waited for %v, want %v", d, c.after)
						}
						var by *padlock.HeldError
						if !errors.As(err, &by) || len(by.Holds) != 1 {
							t.Errorf("%v does not say by whom", err)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

func TestWaitIsADefaultThatACallOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memstore.New(), padlock.Wait(time.Second))
		defer acquire(t, l, "job").Release()
		start := time.Now()
		l.Acquire(t.Context(), "job")
		l.Acquire(t.Context(), "job", padlock.Wait(2*time.Second))
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("waited for %v, want 1s and 2s", d)
		}
	})
}

// A waiter that gives up in the line lets the others move up.
func TestLeavingTheLine(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		var cancels []context.CancelFunc
		got := make(chan int, 5)
		var wg sync.WaitGroup
		for i := range 5 {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			cancels = append(cancels, cancel)
			wg.Go(func() {
				h, err := l.Acquire(ctx, "job")
				if err != nil {
					wantOnly(t, err, "acquire", padlock.ErrHeld, context.Canceled)
					return
				}
				got <- i
				release(t, h)
			})
			synctest.Wait()
		}
		if n := l.Stats().Waiting; n != 5 {
			t.Errorf("%d wait, want 5", n)
		}
		for _, i := range []int{1, 0, 3} { // in the line, at its head, in the line
			cancels[i]()
			synctest.Wait()
		}
		if n := l.Stats().Waiting; n != 2 {
			t.Errorf("%d wait, want 2", n)
		}
		release(t, h)
		wg.Wait()
		if a, b := <-got, <-got; a != 2 || b != 4 {
			t.Errorf("the lock went to %d and %d, want 2 and 4", a, b)
		}
	})
}

func TestMaxWaiters(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s, padlock.MaxWaiters(3))
		h := acquire(t, l, "job")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wait := func() {
			wg.Go(func() {
				if h, err := l.Acquire(ctx, "job"); err == nil {
					release(t, h)
				}
			})
			synctest.Wait()
		}
		for range 3 {
			wait()
		}
		_, err := l.Acquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrTooManyWaiters)
		_, err = l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		acquire(t, l, "another").Release()
		cancel()
		wg.Wait()
		ctx = t.Context()
		for range 3 { // the places are free again
			wait()
		}
		_, err = l.Acquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrTooManyWaiters)
		release(t, h)
		wg.Wait()
	})
}

// Goroutines of one Locker are one waiter in the store.
func TestOneWaiterInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job")
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { release(t, acquire(t, l, "job")) })
			synctest.Wait()
		}
		state, err := l.Inspect(t.Context(), "job")
		if err != nil || state.Waiters != 1 {
			t.Errorf("%d wait in the store, want 1; %v", state.Waiters, err)
		}
		if n := len(store.log("acquire")); n > 3 {
			t.Errorf("100 waiters sent %d requests", n)
		}
		release(t, h)
		wg.Wait()
		if n := len(store.log("acquire")); n > 103 {
			t.Errorf("%d acquires for 101 locks", n)
		}
	})
}

// Readers that waited for a writer hold the lock together.
func TestReadersHoldTogether(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h := acquire(t, l, "job")
		var wg, all sync.WaitGroup
		all.Add(10)
		for range 10 {
			wg.Go(func() {
				h := acquire(t, l, "job", padlock.Shared())
				if !h.Shared() {
					t.Error("a shared lock says that it is not")
				}
				all.Done()
				all.Wait() // blocks for ever unless all hold it at once
				release(t, h)
			})
		}
		synctest.Wait()
		release(t, h)
		wg.Wait()
	})
}

// A holder that died wakes nobody; its lease ends all the same.
func TestWaitersSurviveADeadHolder(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		dead := driver.Request{Name: "job", Token: driver.TokenOf("of a process that died"), TTL: 10 * time.Second}
		if _, err := s.Acquire(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		l := newLocker(t, s)
		start := time.Now()
		release(t, acquire(t, l, "job"))
		if d := time.Since(start); d < 10*time.Second || d > 10*time.Second+50*time.Millisecond {
			t.Errorf("waited for %v, the lease was over after 10s", d)
		}
	})
}

func TestAForeignTakerWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		foreign := driver.Request{Name: "job", Token: driver.TokenOf("of a program other than padlock"), TTL: time.Hour}
		if _, err := store.Store.Acquire(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		l := newLocker(t, bare{store})
		go func() {
			<-time.After(time.Minute)
			store.Store.Release(context.Background(), "job", foreign.Token.Text(), 0)
		}()
		start := time.Now()
		release(t, acquire(t, l, "job"))
		if d := time.Since(start); d < time.Minute || d > time.Minute+1100*time.Millisecond {
			t.Errorf("waited for %v, the name was free after 1m0s", d)
		}
		if n := len(store.log("acquire")); n < 60 || n > 300 {
			t.Errorf("%d tries in a minute", n)
		}
	})
}

// Without places nobody waits, and a free name is taken all the same.
func TestNoWaiters(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s, padlock.MaxWaiters(0))
		for range 2 {
			h := acquire(t, l, "job")
			_, err := l.Acquire(t.Context(), "job")
			wantOnly(t, err, "acquire", padlock.ErrTooManyWaiters)
			release(t, h)
		}
	})
}

// A waiter that gives up in the line without having asked the store gets the holder that is known
// there.
func TestTheLineTellsWhoHoldsTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l, other := newLocker(t, store), newLocker(t, store.Store.Open())
		ask := func(d time.Duration) []padlock.Hold {
			_, err := l.Acquire(t.Context(), "job", padlock.Wait(d))
			var held *padlock.HeldError
			if !errors.As(err, &held) {
				t.Fatalf("Acquire says %v", err)
			}
			return held.Holds
		}
		first := acquire(t, other, "job", padlock.Label("first"))
		granted := make(chan *padlock.Lock, 3)
		wait := func(l *padlock.Locker, label string) {
			go func() { granted <- acquire(t, l, "job", padlock.Label(label), padlock.HoldAtMost(time.Hour)) }()
			synctest.Wait()
		}
		wait(l, "second")
		wait(other, "third")
		wait(l, "fourth")
		if holds := ask(time.Second); len(holds) != 1 || holds[0].Label != "first" {
			t.Errorf("held by the first: %+v", holds)
		}
		release(t, first)
		second, since := <-granted, time.Now()
		holds := ask(time.Second)
		if len(holds) != 1 || holds[0].Label != "second" || !holds[0].Since.Equal(since) || holds[0].PID != os.Getpid() ||
			!holds[0].PlannedEnd.Equal(since.Add(time.Hour)) {
			t.Errorf("held by the second: %+v", holds)
		}
		release(t, second)
		third := <-granted
		if holds := ask(time.Second); len(holds) != 0 {
			t.Errorf("held by the third, which the line cannot know: %+v", holds)
		}
		release(t, third)
		release(t, <-granted)
	})
}

// A briefly is a store whose releases hand over holds with a lease that is short at first.
type briefly struct{ *remote }

func (b briefly) Wait(ctx context.Context, q driver.Request, reserve bool) (driver.Grant, error) {
	g, err := b.Store.Wait(ctx, q, reserve)
	g.TTL = min(g.TTL, time.Second)
	return g, err
}

// A hold that was handed over with a short lease needs no request before it is used, and is renewed
// before that lease ends. If nobody will renew it, the waiter asks for its full lease first.
func TestHandedOverWithAShortLease(t *testing.T) {
	for tries, options := range map[int][]padlock.Option{
		1: {padlock.TTL(30 * time.Second)},
		2: {padlock.TTL(30 * time.Second), padlock.NoRenewal()},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := briefly{newRemote()}
			l, other := newLocker(t, store), newLocker(t, store.Store)
			first := acquire(t, other, "job")
			got := make(chan *padlock.Lock, 1)
			go func() { got <- acquire(t, l, "job", options...) }()
			synctest.Wait()
			first.Release()
			h := <-got
			if n := len(store.log("acquire")); n != tries {
				t.Errorf("%d requests, want %d", n, tries)
			}
			<-time.After(10 * time.Second)
			if h.Remaining() < 15*time.Second {
				t.Errorf("after 10s: %v remain", h.Remaining())
			}
			h.Release()
		})
	}
}
