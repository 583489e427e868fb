package facetest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/quorum"
)

// crowd lines n goroutines up behind a holder.
func crowd(t *testing.T, l *padlock.Locker, n int, opts ...padlock.Option) (*padlock.Lock, []*waiter) {
	t.Helper()
	h := acquire(t, l, "job", opts...)
	var all []*waiter
	for range n {
		all = append(all, wait(t, l, opts...))
	}
	return h, all
}

// pass releases h and returns the lock that the next waiter then has at once.
func pass(t *testing.T, h *padlock.Lock, next *waiter) *padlock.Lock {
	t.Helper()
	release(t, h)
	synctest.Wait()
	if !next.has() {
		t.Fatal("the next one has no turn")
	}
	return next.lock(t)
}

// Ten holders need one grant, one block of fences and one release; so do the next ten. Each has a
// fence of its own, and the methods of an earlier holder no longer reach the lock.
func TestPassingLocally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s, padlock.PassLocally(10, time.Minute))
		h, all := crowd(t, l, 19)
		for i, w := range all {
			next := pass(t, h, w)
			if next.Fence() <= h.Fence() || (i+1)%10 != 0 && next.Fence() != h.Fence()+1 {
				t.Errorf("SAFETY: holder %d has fence %d after %d", i+1, next.Fence(), h.Fence())
			}
			for what, err := range map[string]error{
				"Check":  h.Check(t.Context()),
				"Extend": h.Extend(t.Context(), 0),
				"cause":  context.Cause(h.Context()),
			} {
				if !errors.Is(err, padlock.ErrReleased) {
					t.Errorf("%s of a lock that was passed on: %v", what, err)
				}
			}
			if err := h.Release(); err != nil {
				t.Errorf("a second Release of a lock that was passed on: %v", err)
			}
			if err := next.Check(t.Context()); err != nil {
				t.Errorf("the next one, after all that: %v", err)
			}
			h = next
		}
		release(t, h)
		n := s.requests()
		if n["acquire"] != 1 || n["raise"] != 2 || n["pass"] != 1 || n["release"] != 1 || n["wait"] != 0 {
			t.Errorf("20 holders in batches of 10: %v", n)
		}
		if st := l.Stats(); st.Acquired != 20 || st.Held != 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Another process has its turn after n holds, with a fence above the whole block, even above the
// fences that no holder had.
func TestOthersAfterABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l, elsewhere := newLocker(t, s, padlock.PassLocally(3, time.Hour)), newLocker(t, relay{connect(s.Store)})
		h, all := crowd(t, l, 5)
		other := wait(t, elsewhere)
		first := h.Fence()
		h = pass(t, h, all[0])
		h = pass(t, h, all[1])
		if other.has() {
			t.Fatal("the batch ended before its time")
		}
		h = pass(t, h, other)
		if h.Fence() <= first+2 {
			t.Errorf("a block of 3 from %d on, and then another process with %d", first, h.Fence())
		}
		h = pass(t, h, all[2])
		first = h.Fence()
		all[3].cancel()
		all[4].cancel()
		release(t, h)
		if h = acquire(t, elsewhere, "job"); h.Fence() <= first {
			t.Error("SAFETY: the fence fell")
		}
		release(t, h)
	})
}

// A batch ends with its time: no further holder takes the lock over, and the next goroutine waits
// in the store's queue behind the waiters that came there before.
func TestBatchEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l, elsewhere := newLocker(t, s, padlock.PassLocally(1000, time.Second)), newLocker(t, relay{connect(s.Store)})
		h, all := crowd(t, l, 3)
		other := wait(t, elsewhere)
		<-time.After(900 * time.Millisecond)
		h = pass(t, h, all[0])
		if n := s.requests()["wait"]; n != 0 {
			t.Errorf("%d waiters in the store's queue before the end of the batch", n)
		}
		<-time.After(200 * time.Millisecond)
		if n := s.requests()["wait"]; n != 1 {
			t.Errorf("%d waiters in the store's queue after the end of the batch", n)
		}
		h = pass(t, h, other)
		h = pass(t, h, all[1])
		h = pass(t, h, all[2])
		release(t, h)
	})
}

// The lease goes on from holder to holder: it is renewed as before, and the Context of the present
// holder ends before the lease can have ended.
func TestLeaseGoesOnInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := relay{newRemote()}
		l := newLocker(t, s, padlock.PassLocally(100, time.Hour), padlock.TTL(ttl))
		h, all := crowd(t, l, 12)
		for i := range 10 {
			<-time.After(2 * time.Second)
			if err := h.Check(t.Context()); err != nil {
				t.Fatalf("holder %d, after %v: %v", i, time.Duration(i+1)*2*time.Second, err)
			}
			h = pass(t, h, all[i])
		}
		s.request("extend", lost)
		start := time.Now()
		h = pass(t, h, all[10])
		<-h.Context().Done()
		if d := time.Since(start); d > ttl || !errors.Is(context.Cause(h.Context()), padlock.ErrLost) {
			t.Errorf("renewal stopped, and %v later the lock ended: %v", d, context.Cause(h.Context()))
		}
		s.heal()
		if err := h.Release(); !errors.Is(err, padlock.ErrExpired) && !errors.Is(err, padlock.ErrLost) {
			t.Errorf("Release after the lease: %v", err)
		}
		release(t, all[11].lock(t))
	})
}

// A lease that could not be renewed for a while is not passed on.
func TestOldLeaseIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s, padlock.PassLocally(100, time.Hour), padlock.TTL(10*time.Second))
		h, all := crowd(t, l, 1)
		s.request("extend", lost)
		<-time.After(6 * time.Second)
		h = pass(t, h, all[0])
		if n := s.requests(); n["pass"] != 1 || h.Remaining() < 9*time.Second {
			t.Errorf("the next one has %v left of its lease: %v", h.Remaining(), n)
		}
		s.heal()
		release(t, h)
	})
}

// To others a batch looks like one hold. A caller whose lock would differ from it, or that needs a
// grant of its own, gets the lock from the store.
func TestUnlikeLocksDoNotFollow(t *testing.T) {
	for what, opts := range map[string][]padlock.Option{
		"another TTL":     {padlock.TTL(time.Minute)},
		"another label":   {padlock.Label("other")},
		"HoldAtMost":      {padlock.HoldAtMost(time.Minute)},
		"no renewal":      {padlock.NoRenewal()},
		"a hold at least": {padlock.HoldAtLeast(time.Second)},
		"a greater fence": {padlock.FenceAbove(driver.MaxFence / 2)},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s, padlock.PassLocally(100, time.Hour))
				h := acquire(t, l, "job")
				next := wait(t, l, opts...)
				h = pass(t, h, next)
				if n := s.requests(); n["raise"] != 0 || n["pass"] != 1 {
					t.Errorf("%v", n)
				}
				if state, err := l.Inspect(t.Context(), "job"); err != nil || len(state.Holds) != 1 || state.Fence != h.Fence() {
					t.Errorf("%+v, %v; the fence is %d", state, err, h.Fence())
				}
				release(t, h)
			})
		})
	}
}

// A waiter that gets a lock in the instant in which it gives up releases it.
func TestGivingUpInABatch(t *testing.T) {
	for range 50 {
		s := relay{newRemote()}
		l := newLocker(t, s, padlock.PassLocally(100, time.Hour))
		h := acquire(t, l, "job")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			h, err := l.Acquire(ctx, "job")
			if err == nil {
				err = h.Release()
			}
			done <- err
		}()
		for l.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		go cancel()
		release(t, h)
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		release(t, acquire(t, l, "job"))
	}
}

// Without a block of fences nothing is passed on in memory: the lock is released, and the store
// grants it to the next waiter.
func TestNoBlockOfFences(t *testing.T) {
	for what, c := range map[string]struct {
		why    trouble
		raises int
	}{
		"unavailable": {fails(padlock.ErrUnavailable), 2},
		"no reply":    {lost, 2},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s, padlock.PassLocally(100, time.Hour))
				s.request("raise", c.why)
				h, all := crowd(t, l, 2)
				for _, w := range all {
					before := h.Fence()
					release(t, h)
					if h = w.lock(t); h.Fence() <= before {
						t.Error("SAFETY: the fence fell")
					}
				}
				release(t, h)
				if n := s.requests(); n["raise"] != c.raises || n["pass"]+n["release"] != 3 {
					t.Errorf("%v", n)
				}
			})
		})
	}
}

// If the store lost the hold, the present holder of the batch learns that, and the waiters ask the
// store.
func TestLossInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s, padlock.PassLocally(100, time.Hour))
		h, all := crowd(t, l, 2)
		h = pass(t, h, all[0])
		state, err := s.Inspect(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Store.Break(t.Context(), "job", state.Fence); err != nil {
			t.Fatal(err)
		}
		<-h.Context().Done()
		next := all[1].lock(t)
		if next.Fence() <= state.Fence {
			t.Errorf("after a block up to %d the next fence is %d", state.Fence, next.Fence())
		}
		if err := h.Release(); !errors.Is(err, padlock.ErrLost) {
			t.Errorf("Release of a lost lock: %v", err)
		}
		release(t, next)
	})
}

// A quorum has no queue in which a lock could be passed on, but a hold can go from one goroutine to
// the next in memory.
func TestPassingLocallyInAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := []driver.Store{newRemote(), newRemote(), newRemote()}
		for i, m := range members {
			members[i] = relay{m.(*remote)}
		}
		s, err := quorum.New(quorum.Majority, members)
		if err != nil {
			t.Fatal(err)
		}
		l := newLocker(t, s, padlock.PassLocally(5, time.Hour))
		h, all := crowd(t, l, 11)
		for i, w := range all {
			<-time.After(7 * time.Second) // renewals come between
			release(t, h)
			next := w.lock(t)
			if next.Fence() <= h.Fence() {
				t.Errorf("SAFETY: holder %d has fence %d after %d", i+1, next.Fence(), h.Fence())
			}
			if err := next.Check(t.Context()); err != nil {
				t.Error(err)
			}
			h = next
		}
		release(t, h)
		if n := members[0].(relay).requests(); n["raise"] < 3 || n["acquire"] > 20 {
			t.Errorf("12 holders in batches of 5: %v", n)
		}
	})
}

// The last block of fences ends below 2^53, and may be shorter than the others.
func TestPassingLocallyUpToTheLastFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		s.grant = func(g *driver.Grant) { g.Fence = driver.MaxFence - 3 }
		l := newLocker(t, s, padlock.PassLocally(100, time.Minute))
		h, all := crowd(t, l, 3)
		s.remote.mu.Lock()
		s.grant = nil
		s.remote.mu.Unlock()
		for i, w := range all[:2] {
			if h = pass(t, h, w); h.Fence() != driver.MaxFence-2+uint64(i) {
				t.Errorf("holder %d has fence 2^53-%d", i+1, driver.MaxFence-h.Fence())
			}
		}
		if n := s.requests(); n["raise"] != 1 || n["pass"] != 0 {
			t.Errorf("%v", n)
		}
		release(t, h)
		synctest.Wait()
		if all[2].lockless(t); !errors.Is(all[2].err, driver.ErrFencesUsedUp) {
			t.Errorf("after the last fence: %v", all[2].err)
		}
	})
}

func TestInvalidPassLocally(t *testing.T) {
	for _, c := range []struct {
		n int
		d time.Duration
	}{{0, 0}, {0, time.Second}, {1, time.Second}, {100_001, time.Second}, {-1, time.Second}, {10, 0}, {10, -1}, {10, 2 * time.Hour}} {
		l := newLocker(t, newRemote(), padlock.PassLocally(c.n, c.d))
		_, err := l.TryAcquire(t.Context(), "job")
		wantOnly(t, err, "acquire", padlock.ErrInvalid)
	}
}
