package facetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The renewal comes when a third of the TTL is over, a tenth of that sooner or later, and spread:
// locks taken together are not renewed together.
func TestRenewalAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, locks = 30 * time.Second, 200
		store := newRemote()
		l := newLocker(t, store)
		start := time.Now()
		for i := range locks {
			defer acquire(t, l, fmt.Sprint(i), padlock.TTL(ttl)).Release()
		}
		<-time.After(12 * time.Second)
		calls := store.log("extend")
		if len(calls) != locks {
			t.Fatalf("%d renewals of %d locks", len(calls), locks)
		}
		seen := map[time.Duration]int{}
		for _, c := range calls {
			after := c.at.Sub(start)
			if after < 9*time.Second || after > 11*time.Second {
				t.Errorf("a renewal after %v, want 9s to 11s", after)
			}
			if c.ttl != ttl {
				t.Errorf("renewed for %v, want %v", c.ttl, ttl)
			}
			seen[after/(100*time.Millisecond)]++
		}
		if len(seen) < 15 {
			t.Errorf("%d renewals fell into %d of 20 tenths of a second", locks, len(seen))
		}
	})
}

func TestRenewalGoesOnAndMovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(3*time.Second))
		for range 1000 {
			<-time.After(time.Second)
			if left := h.Remaining(); left < 1800*time.Millisecond {
				t.Fatalf("%v remain of a lock of 3s that is renewed", left)
			}
		}
		release(t, h)
		n := len(store.log("extend"))
		if n < 900 || n > 1120 {
			t.Errorf("%d renewals in 1000 s with a TTL of 3 s", n)
		}
		<-time.After(time.Hour)
		if more := len(store.log("extend")) - n; more != 0 {
			t.Errorf("%d renewals after the release", more)
		}
		if s := l.Stats(); s.Renewals != uint64(n) || s.RenewalErrors != 0 || s.Lost != 0 {
			t.Errorf("%+v after %d renewals", s, n)
		}
	})
}

// A renewal that fails is tried again each tenth of the TTL, and the lock is not lost for that.
func TestTransientErrorsDoNotLoseALock(t *testing.T) {
	for name, trouble := range map[string]trouble{
		"unavailable":       fails(driver.ErrUnavailable),
		"reset":             lost,
		"uncertain":         fails(driver.ErrUncertain),
		"deadline exceeded": fails(context.DeadlineExceeded),
		"silent":            silent,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 30 * time.Second
				store := newRemote()
				store.request("extend", trouble)
				l := newLocker(t, store)
				h := acquire(t, l, "job", padlock.TTL(ttl))
				<-time.After(24 * time.Second)
				if err := h.Context().Err(); err != nil {
					t.Fatalf("lost by %v", context.Cause(h.Context()))
				}
				calls := store.log("extend")
				if n := l.Stats().RenewalErrors; n < 1 || n > uint64(len(calls)) {
					t.Errorf("%d tries, %+v", len(calls), l.Stats())
				}
				for i, c := range calls[1:] {
					if d := c.at.Sub(calls[i].at); d > ttl/6+ttl/10+ttl/100 || d < ttl/10-ttl/100 {
						t.Errorf("the next try came after %v", d)
					}
				}
				store.heal()
				<-time.After(time.Hour)
				release(t, h)
			})
		})
	}
}

// A store that comes back shortly before the cut-off finds a try under way.
func TestRenewalIsTriedUpToTheEnd(t *testing.T) {
	for name, trouble := range map[string]trouble{"unavailable": fails(driver.ErrUnavailable), "silent": silent} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // as the jitter falls
				synctest.Test(t, func(t *testing.T) {
					store := newRemote()
					store.request("extend", trouble)
					l := newLocker(t, store)
					h := acquire(t, l, "job")
					<-time.After(28 * time.Second)
					store.heal()
					<-time.After(time.Hour)
					if err := h.Release(); err != nil {
						t.Error(err)
					}
					if n := len(store.log("extend")); n > 400 {
						t.Errorf("%d requests in an hour", n)
					}
				})
			}
		})
	}
}

// A renewal may take a sixth of the TTL, and half of the remaining time.
func TestPatienceOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 12 * time.Second
		store := newRemote()
		var took []time.Duration
		store.request("extend", func(ctx context.Context, _ int) error {
			start := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(start))
			return ctx.Err()
		})
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(ttl))
		<-h.Context().Done()
		if took[0] != ttl/6 {
			t.Errorf("the first renewal was given up after %v, want %v", took[0], ttl/6)
		}
		for _, d := range took {
			if d > ttl/6 {
				t.Errorf("a renewal was given up after %v", d)
			}
		}
		if len(took) < 3 {
			t.Errorf("only %d tries", len(took))
		}
		h.Release()
	})
}

func TestNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		start := time.Now()
		h := acquire(t, l, "job", padlock.TTL(time.Minute), padlock.NoRenewal())
		<-time.After(30 * time.Second)
		if err := h.Extend(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got, want := h.Remaining(), time.Minute-margins(time.Minute); got != want {
			t.Errorf("%v remain after Extend(0), want %v", got, want)
		}
		<-h.Context().Done()
		if d, want := time.Since(start), 90*time.Second-margins(time.Minute); d != want {
			t.Errorf("lasted %v, want %v", d, want)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, padlock.ErrLost) {
			t.Errorf("ended by %v", cause)
		}
		if n := len(store.log("extend")); n != 1 {
			t.Errorf("%d extends, want the one asked for", n)
		}
		h.Release()
	})
}

func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		h := acquire(t, l, "job", padlock.TTL(time.Second), padlock.NoRenewal())
		if err := h.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := h.Extend(t.Context(), time.Second); err != nil { // shortens nothing
			t.Fatal(err)
		}
		if got, want := h.Remaining(), time.Minute-margins(time.Minute); got != want {
			t.Errorf("%v remain, want %v", got, want)
		}
		for _, bad := range []time.Duration{-1, 99 * time.Millisecond, 24*time.Hour + 1} {
			wantOnly(t, h.Extend(t.Context(), bad), "extend", padlock.ErrInvalid)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantOnly(t, h.Extend(ctx, time.Hour), "extend", context.Canceled)
		release(t, h)
		wantOnly(t, h.Extend(t.Context(), time.Minute), "extend", padlock.ErrReleased)
	})
}

// A lock that was extended beyond its TTL is renewed when that is needed, not before, and never for
// less.
func TestRenewalAfterALongExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(3*time.Second))
		if err := h.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		<-time.After(59 * time.Minute)
		if n := len(store.log("extend")); n != 1 {
			t.Errorf("%d renewals of a lock that lasts for an hour", n-1)
		}
		<-time.After(time.Hour)
		release(t, h)
	})
}

// The user extends while a renewal hangs that ignores its context; then two renewals seem to be
// due.
func TestExtendWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("extend", first(1, deaf))
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(3*time.Second))
		for len(store.log("extend")) == 0 {
			<-time.After(10 * time.Millisecond)
		}
		for range 10 {
			<-time.After(1500 * time.Millisecond)
			if err := h.Extend(t.Context(), 3*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		release(t, h)
	})
}

func TestMaxHoldBoundsRenewals(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		start := time.Now()
		h := acquire(t, l, "job", padlock.TTL(3*time.Second), padlock.HoldAtMost(10*time.Second))
		if left := h.Remaining(); left > 3*time.Second {
			t.Errorf("%v remain at the start", left)
		}
		<-h.Context().Done()
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("ended after %v", d)
		}
		cause := context.Cause(h.Context())
		wantOnly(t, cause, "hold", padlock.ErrMaxHold)
		wantOnly(t, h.Extend(t.Context(), 0), "extend", padlock.ErrMaxHold)
		wantOnly(t, h.Check(t.Context()), "check", padlock.ErrMaxHold)
		wantOnly(t, h.Release(), "release", padlock.ErrMaxHold)
		acquire(t, l, "job").Release()
	})
}

// Every goroutine that may notice the end of HoldAtMost first reports it as ErrMaxHold.
func TestMaxHoldAsked(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := newLocker(t, memstore.New())
			h := acquire(t, l, "job", padlock.HoldAtMost(10*time.Second))
			defer h.Release()
			<-time.After(10 * time.Second) // the renewer's timer is due now too
			wantOnly(t, h.Check(t.Context()), "check", padlock.ErrMaxHold)
		})
	}
}

func TestTheLongestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		h := acquire(t, l, "job", padlock.HoldAtMost(1<<63-1))
		<-time.After(time.Hour)
		release(t, h)
	})
}

// HoldAtLeast is a longer first lease; renewal begins when that ends.
func TestRenewalAfterALongFirstLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(3*time.Second), padlock.HoldAtLeast(time.Hour))
		if got, want := h.Remaining(), time.Hour-margins(time.Hour); got != want {
			t.Errorf("%v remain, want %v", got, want)
		}
		<-time.After(59 * time.Minute)
		if n := len(store.log("extend")); n != 0 {
			t.Errorf("%d renewals of a lease of an hour", n)
		}
		<-time.After(time.Hour)
		release(t, h)
	})
}

// 100,000 locks have no goroutine and no timer each, and all are renewed.
func TestManyLocksNeedNoGoroutineEach(t *testing.T) {
	server.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		const locks = 100_000
		l := newLocker(t, memstore.New(memstore.MaxTTL(time.Hour)))
		before := runtime.NumGoroutine()
		held := make([]*padlock.Lock, locks)
		for i := range held {
			held[i] = acquire(t, l, fmt.Sprint(i), padlock.TTL(time.Hour))
		}
		if n := runtime.NumGoroutine() - before; n > 50 {
			t.Errorf("%d goroutines for %d locks", n, locks)
		}
		<-time.After(25 * time.Minute)
		if n := runtime.NumGoroutine() - before; n > 50 {
			t.Errorf("%d goroutines after renewals of %d locks", n, locks)
		}
		if s := l.Stats(); s.Held != locks || s.Renewals != locks || s.Lost != 0 {
			t.Errorf("%+v", s)
		}
		for _, h := range held {
			release(t, h)
		}
	})
}

// Each of many locks ends at its own time, to the nanosecond, whatever becomes of the others.
func TestManyDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		rnd := rand.New(rand.NewPCG(1, 2))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 500 {
			ttl := time.Duration(rnd.Int64N(int64(time.Minute))) + time.Second
			h := acquire(t, l, fmt.Sprint(i), padlock.TTL(ttl), padlock.NoRenewal())
			want := ttl - margins(ttl)
			if fate := rnd.IntN(4); fate < 2 {
				at := time.Duration(rnd.Int64N(int64(ttl / 2)))
				time.AfterFunc(at, func() {
					if fate == 0 {
						release(t, h)
					} else if err := h.Extend(t.Context(), ttl); err != nil {
						t.Error(err)
					}
				})
				if want += at; fate == 0 {
					want = at
				}
			}
			wg.Go(func() {
				<-h.Context().Done()
				if d := time.Since(start); d != want {
					t.Errorf("a lock of %v ended after %v, want %v", ttl, d, want)
				}
				h.Release()
			})
		}
		wg.Wait()
	})
}

// One lock is used by many goroutines at once; with -race.
func TestALockIsSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		h := acquire(t, l, "job", padlock.Shared(), padlock.TTL(time.Second))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				<-time.After(time.Duration(i) * 20 * time.Millisecond)
				h.Extend(t.Context(), time.Minute)
				h.Check(t.Context())
				h.Promote(t.Context())
				h.Demote(t.Context())
				h.Context().Err()
				_, _, _, _ = h.Name(), h.Shared(), h.Fence(), h.Remaining()
				l.Stats()
				if i >= 40 {
					release(t, h)
				}
			})
		}
		wg.Wait()
		if err := context.Cause(h.Context()); !errors.Is(err, padlock.ErrReleased) {
			t.Errorf("ended by %v", err)
		}
	})
}
