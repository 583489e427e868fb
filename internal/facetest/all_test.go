package facetest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestAcquireAll(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		all, err := l.AcquireAll(t.Context(), []string{"c", "a", "b", "a"})
		if err != nil {
			t.Fatal(err)
		}
		if got := all.Names(); !reflect.DeepEqual(got, []string{"a", "b", "c"}) {
			t.Errorf("the names are %v", got)
		}
		fences := map[string]uint64{}
		for name, grant := range padlock.GrantsFrom(all.Context()) {
			fences[name] = grant.Fence()
		}
		if !reflect.DeepEqual(fences, all.Fences()) || len(fences) != 3 || fences["b"] == 0 {
			t.Errorf("the fences are %v and %v", fences, all.Fences())
		}
		if err := all.Check(t.Context()); err != nil || all.Remaining() <= 0 || all.Lock("b").Name() != "b" || all.Lock("d") != nil {
			t.Errorf("the locks are not held: %v", err)
		}
		if _, err := l.Acquire(all.Context(), "b"); !errors.Is(err, padlock.ErrAlreadyHeld) {
			t.Errorf("inside, b is to be had again: %v", err)
		}
		for _, name := range []string{"a", "b", "c"} {
			if _, err := l.TryAcquire(t.Context(), name); !errors.Is(err, padlock.ErrHeld) {
				t.Errorf("%s is not held: %v", name, err)
			}
		}
		if err := all.Release(); err != nil {
			t.Error(err)
		}
		if err := all.Context().Err(); err == nil {
			t.Error("the context lasts after the release")
		}
		k, err := l.TryAcquire(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Release(); err != nil {
			t.Errorf("a second release: %v", err)
		}
		if err := k.Release(); err != nil {
			t.Errorf("the second release released the lock of another caller: %v", err)
		}
	})
}

// A refusal names the name and its holder, and leaves nothing behind.
func TestAcquireAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, opts := range [][]padlock.Option{
			{padlock.Wait(0)}, {padlock.Wait(3 * time.Second)}, {padlock.Wait(0), padlock.HoldAtLeast(time.Hour), padlock.CoolDown(time.Hour)},
		} {
			l := padlock.New(memstore.New())
			other, err := l.Acquire(t.Context(), "c", padlock.Label("nightly"))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = l.AcquireAll(t.Context(), []string{"a", "b", "c"}, opts...)
			var e *padlock.Error
			var held *padlock.HeldError
			if !errors.As(err, &e) || e.Name != "c" || !errors.As(err, &held) || held.Holds[0].Label != "nightly" {
				t.Errorf("the error is %v", err)
			}
			if waited := time.Since(began); waited != 0 && waited != 3*time.Second {
				t.Errorf("the wait took %v", waited)
			}
			other.Release()
			if states, err := l.List(t.Context(), ""); err != nil || len(states) != 0 {
				t.Errorf("%v left %+v behind, %v", opts, states, err)
			}
			l.Close(t.Context())
		}
	})
}

// The order of the names that two callers give does not matter. Redisson #1160 is a deadlock of a
// lock on several names.
func TestAcquireAllWithoutDeadlock(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		var wg sync.WaitGroup
		for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a"}, {"c", "a"}} {
			wg.Go(func() {
				for range 25 {
					if err := l.DoAll(t.Context(), names, func(context.Context) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// If one lock is lost, the context of all ends, and a wait for further names ends too.
func TestAcquireAllLosesOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := padlock.New(store)
		defer l.Close(t.Context())
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.TTL(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		evict := func(name string) {
			state, err := l.Inspect(t.Context(), name)
			if err == nil {
				_, err = l.Break(t.Context(), name, state.Fence)
			}
			if err != nil {
				t.Error(err)
			}
		}
		evict("a")
		<-all.Context().Done()
		var e *padlock.Error
		if cause := context.Cause(all.Context()); !errors.As(cause, &e) || e.Name != "a" || !errors.Is(cause, padlock.ErrLost) {
			t.Errorf("the context ended with %v", cause)
		}
		if err := all.Release(); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("the release says %v", err)
		}

		k, err := l.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.TTL(3*time.Second))
			failed <- err
		}()
		synctest.Wait()
		evict("a")
		if err := <-failed; !errors.As(err, &e) || e.Name != "a" || !errors.Is(err, padlock.ErrLost) {
			t.Errorf("after the loss of a, the wait for b ends with %v", err)
		}
		if err := k.Release(); err != nil {
			t.Error(err)
		}
		if states, _ := l.List(t.Context(), ""); len(states) != 0 {
			t.Errorf("%+v is left behind", states)
		}
	})
}

// The time of HoldAtLeast counts from the moment when all locks are held.
func TestAcquireAllHoldsAtLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.HoldAtLeast(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Release(); err != nil {
			t.Error(err)
		}
		for _, name := range all.Names() {
			if _, err := l.TryAcquire(t.Context(), name); !errors.Is(err, padlock.ErrHeld) {
				t.Errorf("%s is free at once: %v", name, err)
			}
		}
		<-time.After(time.Minute)
		if err := l.DoAll(t.Context(), all.Names(), func(context.Context) error { return nil }, padlock.Wait(0)); err != nil {
			t.Error(err)
		}
	})
}

func TestDoAll(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		want := errors.New("what fn returned")
		ctx, cancel := context.WithCancel(t.Context())
		got := l.DoAll(ctx, []string{"a", "b"}, func(inside context.Context) error {
			if n := len(padlock.GrantsFrom(inside)); n != 2 {
				t.Errorf("there are %d grants", n)
			}
			cancel()
			<-inside.Done()
			return want
		})
		if got != want {
			t.Errorf("DoAll returns %v", got)
		}
		func() {
			defer func() { recover() }()
			l.DoAll(t.Context(), []string{"a", "b"}, func(context.Context) error { panic("x") })
		}()
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.Wait(0))
		if err != nil {
			t.Fatalf("after a panic: %v", err)
		}
		all.Release()
	})
}

func TestAcquireAllInvalid(t *testing.T) {
	l := padlock.New(memstore.New())
	defer l.Close(t.Context())
	for _, c := range []struct {
		names []string
		opts  []padlock.Option
	}{
		{}, {[]string{"a"}, []padlock.Option{padlock.Slots(2)}}, {[]string{"a", ""}, nil}, {[]string{"a"}, []padlock.Option{padlock.Wait(-1)}},
	} {
		if _, err := l.AcquireAll(t.Context(), c.names, c.opts...); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("%v: %v", c.names, err)
		}
	}
	var none padlock.Locks
	if err := none.Release(); !errors.Is(err, padlock.ErrReleased) || none.Context().Err() == nil || none.Remaining() != 0 || len(none.Names()) != 0 {
		t.Errorf("the zero Locks: %v", err)
	}
}

// hashed keeps two names in one place if they have the same length.
type hashed struct{ driver.Store }

func (hashed) Location(name string) (string, error)    { return string(rune(len(name))), nil }
func (hashed) StoreID(context.Context) (string, error) { return "", errors.ErrUnsupported }
func (hashed) SamePlace(driver.Store) bool             { return false }
func (h hashed) Unwrap() driver.Store                  { return h.Store }
func (h hashed) Guarantees() driver.Guarantees {
	g := h.Store.Guarantees()
	g.Hashed = true
	g.Lacks |= driver.AbilityStoreID
	return g
}

func TestNamesThatShareALock(t *testing.T) {
	for _, store := range []driver.Store{hashed{memstore.New()}, padlock.WithPrefix(hashed{memstore.New()}, "p:")} {
		l := padlock.New(store)
		if _, err := l.AcquireAll(t.Context(), []string{"one", "two"}); !errors.Is(err, padlock.ErrInvalid) {
			t.Errorf("the error is %v", err)
		}
		if _, err := l.AcquireAll(t.Context(), []string{"one", "three"}); err != nil {
			t.Error(err)
		}
		l.Close(t.Context())
	}
}

// The context of the locks reports which lock was lost, even if the context given to AcquireAll had
// ended before.
func TestAcquireAllCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		all, err := l.AcquireAll(ctx, []string{"a", "b", "c"}, padlock.TTL(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		inside, stop := context.WithCancel(all.Context())
		defer stop()
		synctest.Wait()
		if err := inside.Err(); err != nil {
			t.Fatalf("the context ends with the wait: %v", err)
		}
		state, err := l.Inspect(t.Context(), "a")
		if err == nil {
			_, err = l.Break(t.Context(), "a", state.Fence)
		}
		if err != nil {
			t.Fatal(err)
		}
		<-inside.Done()
		for _, ctx := range []context.Context{all.Context(), inside} {
			var e *padlock.Error
			if cause := context.Cause(ctx); !errors.As(cause, &e) || e.Name != "a" || !errors.Is(cause, padlock.ErrLost) {
				t.Errorf("the context ended with %v", cause)
			}
		}
		all.Release()
	})
}

// A caller that gives up before all locks are held leaves none. One that gives up afterwards has
// them all, so that no name stays taken without the others.
func TestAcquireAllCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c"}
		for i := range 4 * len(names) {
			r, stop := newRemote(), i/2
			l := padlock.New(r)
			ctx, cancel := context.WithCancel(t.Context())
			on := map[bool]func(string, trouble){false: r.request, true: r.reply}[i%2 == 1]
			on("acquire", func(ctx context.Context, n int) error {
				if n == stop {
					cancel()
				}
				return ctx.Err()
			})
			all, err := l.AcquireAll(ctx, names, padlock.HoldAtLeast(time.Minute))
			synctest.Wait() // a request without a reply is taken back in the background
			if all != nil {
				r.heal()
				if err = all.Check(t.Context()); err != nil || len(all.Names()) != len(names) || stop < len(names) {
					t.Errorf("cancelled after request %d, it has %v, %v", stop, all.Names(), err)
				}
				all.Release()
			} else if states, _ := l.List(t.Context(), ""); len(states) != 0 || !errors.Is(err, context.Canceled) || stop >= len(names) {
				t.Errorf("cancelled after request %d, it leaves %+v, %v", stop, states, err)
			}
			l.Close(t.Context())
		}
	})
}

// The holds of one call share their memory, and their tokens are one string. Each token still
// stands for its own name only, however many names there are.
func TestAcquireAllOfManyNames(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		for n := range 11 {
			var names []string
			for i := range n + 1 {
				names = append(names, string(rune('a'+i)))
			}
			all, err := l.AcquireAll(t.Context(), names)
			if err != nil {
				t.Fatal(err)
			}
			tokens := map[string]bool{}
			for _, name := range names {
				key, err := all.Lock(name).Export(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if tokens[key.Token()] || len(key.Token()) != 44 {
					t.Errorf("the token of %s is also the token of another name, or has not 44 bytes", name)
				}
				tokens[key.Token()] = true
			}
			if err := all.Release(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Several names cost three allocations together, and five for each name: its attempt, its hold, its
// token, and the store's entry with its list of holds. Under the race detector, the random bytes of
// a token are one more.
func TestAllocationsOfSeveralNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := padlock.New(memstore.New())
		defer l.Close(t.Context())
		ctx, names := context.Background(), []string{"stock", "invoices", "nightly-report"}
		once := func() {
			all, err := l.AcquireAll(ctx, names)
			if err == nil {
				err = all.Release()
			}
			if err != nil {
				t.Error(err)
			}
		}
		if n := testing.AllocsPerRun(1000, once); n > 24 {
			t.Errorf("three names make %v allocations, want at most 24", n)
		}
	})
}

// Close after the last lock and before the end of AcquireAll: the error is ErrClosed.
func TestCloseBeforeAcquireAllReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *padlock.Locker
		l = padlock.New(memstore.New(), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
			if e.Kind == padlock.EventAcquired && e.Name == "b" {
				go l.Close(context.Background())
				<-time.After(time.Second)
			}
		})))
		_, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		wantOnly(t, err, "acquire", padlock.ErrClosed)
	})
}

// The zero Locks and a nil *Locks hold nothing: they behave like locks that were released.
func TestZeroLocks(t *testing.T) {
	for _, all := range []*padlock.Locks{nil, {}} {
		wantOnly(t, all.Check(t.Context()), "check", padlock.ErrReleased)
		wantOnly(t, all.Release(), "release", padlock.ErrReleased)
		if len(all.Names()) != 0 || len(all.Fences()) != 0 || all.Lock("a") != nil || all.Remaining() != 0 || all.Context().Err() == nil {
			t.Errorf("%v, %v, %v, %v", all.Names(), all.Fences(), all.Remaining(), all.Context().Err())
		}
	}
}

// A lock of AcquireAll is lost at the instant at which the caller's deadline is over. The error
// names one of the two. Nothing else has ended, so no other error matches.
func TestAcquireAllLosesOneAtItsDeadline(t *testing.T) {
	const end = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l, other := newLocker(t, store), newLocker(t, connect(store.Store))
		kept := acquire(t, other, "b")
		for range 100 { // which timer fires first is random
			ctx, cancel := context.WithTimeout(t.Context(), end)
			_, err := l.AcquireAll(ctx, []string{"a", "b"}, padlock.HoldAtMost(end))
			if errors.Is(err, context.Canceled) || !errors.Is(err, padlock.ErrMaxHold) && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		release(t, kept)
	})
}
