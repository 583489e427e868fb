package facetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

func TestContextCancelledBeforeAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.Acquire(ctx, "job")
		wantOnly(t, err, "acquire", context.Canceled)
		_, err = l.TryAcquire(ctx, "job")
		wantOnly(t, err, "acquire", context.Canceled)
		err = l.Do(ctx, "job", func(context.Context) error { t.Error("Do called its function"); return nil })
		wantOnly(t, err, "acquire", context.Canceled)
		if n := len(store.log("acquire")); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// The request is under way when ctx ends, and the server carries it out. The lock is released with
// another context than the caller's.
func TestContextEndsDuringAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", silent)
		l := newLocker(t, store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := l.Acquire(ctx, "job")
		wantOnly(t, err, "acquire", padlock.ErrUncertain, context.DeadlineExceeded)
		if d := time.Since(start); d != time.Second {
			t.Errorf("Acquire returned %v after the start, its context ended after 1s", d)
		}
		synctest.Wait()
		if !free(t, store, "job") {
			t.Error("nobody has the lock, and it is still held")
		}
		calls := store.log("release")
		if len(calls) == 0 || calls[0].token != store.log("acquire")[0].token {
			t.Fatalf("cleaned up by %+v", calls)
		}
		for _, c := range calls {
			if err := context.Cause(c.ctx); errors.Is(err, context.DeadlineExceeded) {
				t.Error("the clean-up ran on the caller's context")
			}
		}
	})
}

// The lock is granted in the instant in which ctx ends: it is released.
func TestContextEndsWithTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		ctx, cancel := context.WithCancel(t.Context())
		store.grant = func(*driver.Grant) { cancel() }
		l := newLocker(t, store)
		_, err := l.Acquire(ctx, "job")
		wantOnly(t, err, "acquire", padlock.ErrUncertain, context.Canceled)
		synctest.Wait()
		if !free(t, store, "job") {
			t.Error("nobody has the lock, and it is still held")
		}
	})
}

// A lock does not end with the context that waited for it.
func TestContextEndsAfterAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		h, err := l.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-time.After(time.Hour)
		if err := h.Context().Err(); err != nil {
			t.Errorf("the lock's context ended with the acquiring one: %v", err)
		}
		if h.Context().Value(key{}) != "value" {
			t.Error("the lock's context lacks the values of the acquiring one")
		}
		release(t, h)
	})
}

// The clean-up goes on until the store confirms it. After that the name is free.
func TestCleanUpIsTriedUntilConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", lost)
		store.request("release", fails(driver.ErrUnavailable))
		l := newLocker(t, store)
		_, err := l.TryAcquire(t.Context(), "job", padlock.TTL(time.Minute))
		wantOnly(t, err, "acquire", padlock.ErrUncertain)
		<-time.After(20 * time.Second)
		if s := l.Stats(); s.Uncertain != 1 || s.CleanUps != 1 || s.CleanUpsDropped != 0 {
			t.Errorf("while the store is down: %+v", s)
		}
		store.heal()
		<-time.After(2 * time.Second)
		if s := l.Stats(); s.Uncertain != 1 || s.CleanUps != 0 || s.CleanUpsDropped != 0 {
			t.Errorf("after: %+v", s)
		}
		if !free(t, store, "job") {
			t.Error("the lock is still held")
		}
	})
}

// After the lease there is nothing left to clean up.
func TestCleanUpIsGivenUpAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", lost)
		store.request("release", fails(driver.ErrUnavailable))
		l := newLocker(t, store)
		l.TryAcquire(t.Context(), "job", padlock.TTL(5*time.Second))
		<-time.After(4 * time.Second)
		if s := l.Stats(); s.CleanUps != 1 {
			t.Errorf("within the lease: %+v", s)
		}
		<-time.After(3 * time.Second)
		if s := l.Stats(); s.CleanUps != 0 || s.CleanUpsDropped != 1 {
			t.Errorf("after the lease: %+v", s)
		}
	})
}

// A request that the caller gave up may arrive after its clean-up: the clean-up asks a second time.
func TestALateRequestIsCleanedUpToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("acquire", first(3, func(context.Context, int) error {
			q := driver.Request{Name: "job", Token: driver.TokenOf(store.log("acquire")[0].token), TTL: padlock.DefaultTTL}
			time.AfterFunc(200*time.Millisecond, func() { store.Store.Acquire(context.Background(), q) })
			return errReset
		}))
		l := newLocker(t, store)
		_, err := l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrUncertain)
		<-time.After(300 * time.Millisecond)
		if free(t, store, "job") {
			t.Fatal("the late request did not arrive; the test is worth nothing")
		}
		<-time.After(time.Second)
		if !free(t, store, "job") {
			t.Error("the late grant of a token that nobody has stays")
		}
	})
}

// The second request of a clean-up may be sent after the end of a short lease. The store has replied
// to the first one, so the clean-up is not counted as dropped. The request is sent and repeated, because
// what a late request took has a lease of its own.
func TestACleanUpOfAShortLease(t *testing.T) {
	for what, test := range map[string]struct {
		trouble  trouble
		requests int
	}{
		"all goes well":      {func(context.Context, int) error { return nil }, 2},
		"a slow reply":       {first(1, func(context.Context, int) error { <-time.After(time.Second); return nil }), 2},
		"the second is lost": {func(_ context.Context, n int) error { return map[int]error{1: errReset}[n] }, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			store.reply("acquire", lost)
			store.reply("release", test.trouble)
			events := &recorder{}
			l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(events.on)))
			_, err := l.TryAcquire(t.Context(), "job", padlock.TTL(300*time.Millisecond))
			wantOnly(t, err, "acquire", padlock.ErrUncertain)
			<-time.After(5 * time.Second)
			if s := l.Stats(); s.CleanUps != 0 || s.CleanUpsDropped != 0 {
				t.Errorf("%s: %+v", what, s)
			}
			if n := len(store.log("release")); n != test.requests {
				t.Errorf("%s: %d requests, want %d", what, n, test.requests)
			}
			if kinds := events.kinds(); kinds[len(kinds)-1] != padlock.EventCleaned {
				t.Errorf("%s: %v", what, kinds)
			}
		})
	}
}

// Another holder of the name does not settle the outcome of a request under way.
func TestALateRequestForANameThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("acquire", lost)
		l := newLocker(t, outcome{store, driver.OutcomeTaken})
		l.TryAcquire(t.Context(), "job")
		<-time.After(5 * time.Second)
		if s := l.Stats(); s.CleanUps != 0 || s.CleanUpsDropped != 0 {
			t.Errorf("%+v", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		counted := &counting{remote: store, out: driver.OutcomeTaken}
		store.request("acquire", lost)
		l := newLocker(t, counted)
		l.TryAcquire(t.Context(), "job")
		<-time.After(5 * time.Second)
		if n := counted.n.Load(); n != 2 {
			t.Errorf("asked %d times, want twice", n)
		}
	})
}

// counting counts releases.
type counting struct {
	*remote
	out driver.Outcome
	n   atomic.Int64
}

func (c *counting) Release(context.Context, string, string, time.Duration) (driver.Outcome, error) {
	c.n.Add(1)
	return c.out, nil
}

// Each try of a clean-up ends after a while, so that a reply that never comes does not stop the
// clean-up.
func TestATryOfACleanUpIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", lost)
		store.request("release", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		l := newLocker(t, store)
		l.TryAcquire(t.Context(), "job")
		<-time.After(10 * time.Second)
		if n := len(store.log("release")); n < 3 {
			t.Errorf("%d tries in 10 s", n)
		}
		store.heal()
	})
}

// The first request of a waiter is lost, and the next one finds the name held. The waiter goes on
// with another token, and the first token is cleaned up. Otherwise the waiter would wait for
// itself.
func TestALateRequestOfAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		other := newLocker(t, store.Store.Open())
		h := acquire(t, other, "job")
		store.request("acquire", first(1, func(context.Context, int) error {
			q := driver.Request{Name: "job", Token: driver.TokenOf(store.log("acquire")[0].token), TTL: padlock.DefaultTTL}
			time.AfterFunc(100*time.Millisecond, func() {
				release(t, h)
				if _, err := store.Store.Acquire(context.Background(), q); err != nil {
					t.Errorf("the late request: %v", err)
				}
			})
			return errReset
		}))
		l := newLocker(t, bare{store})
		start := time.Now()
		release(t, acquire(t, l, "job"))
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("the waiter stood in its own way for %v", d)
		}
	})
}

// The store hands the name over in the instant in which the caller gives up.
func TestGrantAndGivingUpAtOnce(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		for range 100 {
			h := acquire(t, l, "job")
			time.AfterFunc(time.Second, func() { release(t, h) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if h, err := l.Acquire(ctx, "job"); err == nil {
				release(t, h)
			}
			cancel()
			synctest.Wait()
			if h, err := l.Acquire(t.Context(), "job", padlock.Wait(2*time.Second)); err != nil {
				t.Fatalf("nobody has the lock: %v", err)
			} else {
				release(t, h)
			}
		}
	})
}

const mostCleanUps = 1024

// At most 1,024 clean-ups are open at once, and few of them have a request under way. Further ones,
// and those that wait for too long, are counted, and their locks end with their leases.
func TestCleanUpsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", lost)
		store.request("release", silent)
		l := newLocker(t, store)
		var wg sync.WaitGroup
		for i := range mostCleanUps + 36 {
			wg.Go(func() { l.TryAcquire(t.Context(), fmt.Sprint(i)) })
		}
		wg.Wait()
		synctest.Wait()
		if s := l.Stats(); s.Uncertain != mostCleanUps+36 || s.CleanUps != mostCleanUps || s.CleanUpsDropped != 36 {
			t.Errorf("%+v", s)
		}
		if n := len(store.log("release")); n == 0 || n > 16 {
			t.Errorf("%d clean-ups are on the wire at once", n)
		}
		store.heal()
		<-time.After(padlock.DefaultTTL)
		if n := len(store.log("release")); n > 2*mostCleanUps+16 {
			t.Errorf("%d requests for %d clean-ups", n, mostCleanUps)
		}
		if s := l.Stats(); s.CleanUps != 0 || s.CleanUpsDropped != 36 {
			t.Errorf("at the end: %+v", s)
		}
		states, err := store.List(t.Context(), "")
		if len(states) != 0 || err != nil {
			t.Errorf("%d locks are left, %v", len(states), err)
		}
	})
}

// A clean-up that waited until the end of its lease sends no request.
func TestCleanUpsLapseInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("acquire", lost)
		store.request("release", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		l := newLocker(t, store, padlock.TTL(10*time.Second))
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() { l.TryAcquire(t.Context(), fmt.Sprint(i)) })
		}
		wg.Wait()
		<-time.After(15 * time.Second)
		if s := l.Stats(); s.CleanUps != 0 || s.CleanUpsDropped != 500 {
			t.Errorf("after the leases: %+v", s)
		}
		store.heal()
	})
}

// Nothing that is cancelled at any point leaves a lock behind.
func TestAThousandCancelsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("acquire", takes(3*time.Millisecond))
		store.reply("acquire", takes(3*time.Millisecond))
		l := newLocker(t, store)
		var wg sync.WaitGroup
		for i := range 1000 {
			if i%27 == 26 {
				<-time.After(time.Millisecond)
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%100)*100*time.Microsecond)
				defer cancel()
				h, err := l.Acquire(ctx, fmt.Sprint(i%10))
				if err == nil {
					release(t, h)
				} else if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		<-time.After(3 * time.Second)
		s := l.Stats()
		if s.CleanUps != 0 || s.Waiting != 0 || s.Held != 0 || s.Uncertain == 0 || s.Acquired == 0 {
			t.Errorf("%+v", s)
		}
		if s.CleanUpsDropped > 0 {
			<-time.After(padlock.DefaultTTL)
		}
		if states, err := store.List(t.Context(), ""); len(states) != 0 || err != nil {
			t.Errorf("left: %+v, %v", states, err)
		}
	})
}

// Jobs that become due together start a worker each, and one worker may do the jobs of others before
// these have begun. Close waits for all of them: newLocker reads without a lock what is left.
func TestCloseWaitsForWorkersWithoutAJob(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			store.reply("acquire", lost)
			l := newLocker(t, store)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					_, err := l.TryAcquire(t.Context(), fmt.Sprint("job", i))
					wantOnly(t, err, "acquire", padlock.ErrUncertain)
				})
			}
			wg.Wait()
		})
	}
}
