package facetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// Context ends at the exact time whatever the renewal does, even if it hangs and does not notice
// that it was cancelled.
func TestCutOffDoesNotWaitForARenewal(t *testing.T) {
	for name, trouble := range map[string]trouble{"silent": silent, "deaf": deaf, "unavailable": fails(driver.ErrUnavailable)} {
		t.Run(name, func(t *testing.T) {
			for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					store := newRemote()
					store.request("extend", trouble)
					l := newLocker(t, store)
					start := time.Now()
					h := acquire(t, l, "job", padlock.TTL(ttl))
					<-h.Context().Done()
					if d, want := time.Since(start), ttl-margins(ttl); d != want {
						t.Errorf("TTL %v: the context ended after %v, want %v", ttl, d, want)
					}
					wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrLost, padlock.ErrExpired)
					if h.Remaining() != 0 {
						t.Errorf("it is over, and %v remain", h.Remaining())
					}
					if s := l.Stats(); s.Lost != 1 || s.Held != 0 {
						t.Errorf("%+v", s)
					}
					store.heal()
					if err := h.Release(); !errors.Is(err, padlock.ErrExpired) {
						t.Errorf("Release says %v", err)
					}
				})
			}
		})
	}
}

// A reply to a renewal that comes after the end of Context revives nothing, although the lease in
// the store is longer now.
func TestALateReplyDoesNotRevive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("extend", func(context.Context, int) error { <-time.After(4 * time.Second); return nil })
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(3*time.Second))
		<-h.Context().Done()
		<-time.After(3 * time.Second)
		if h.Remaining() > 0 {
			t.Error("a late reply has revived the lock")
		}
		wantOnly(t, h.Check(t.Context()), "check", padlock.ErrExpired)
		wantOnly(t, h.Extend(t.Context(), time.Minute), "extend", padlock.ErrExpired)
		// The store had extended it, nobody took it meanwhile.
		wantOnly(t, h.Release(), "release", padlock.ErrExpired)
		if !free(t, store, "job") {
			t.Error("a lost lock was not given back")
		}
	})
}

func TestALateReplyToExtendDoesNotRevive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("extend", func(context.Context, int) error { <-time.After(4 * time.Second); return nil })
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(3*time.Second), padlock.NoRenewal())
		wantOnly(t, h.Extend(t.Context(), time.Minute), "extend", padlock.ErrLost, padlock.ErrExpired)
		if h.Remaining() > 0 || h.Context().Err() == nil {
			t.Error("a late reply has revived the lock")
		}
		wantOnly(t, h.Release(), "release", padlock.ErrExpired)
	})
}

// Replies that overtake each other never move the deadline back.
func TestALateReplyDoesNotMoveTheDeadlineBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.TTL(ttl), padlock.NoRenewal())
		store.reply("extend", first(1, takes(4*time.Second)))
		done := make(chan error)
		go func() { done <- h.Extend(t.Context(), ttl) }()
		<-time.After(2 * time.Second)
		if err := h.Extend(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got, want := h.Remaining(), ttl-margins(ttl)-2*time.Second; got != want {
			t.Errorf("%v remain, want %v", got, want)
		}
		release(t, h)
	})
}

// A reply that says for certain that the lock is gone ends it at once.
func TestADefiniteLossEndsAtOnce(t *testing.T) {
	ways := map[string]func(*testing.T, *padlock.Lock) error{
		"renewal": func(_ *testing.T, h *padlock.Lock) error { <-h.Context().Done(); return nil },
		"check":   func(t *testing.T, h *padlock.Lock) error { return h.Check(t.Context()) },
		"extend":  func(t *testing.T, h *padlock.Lock) error { return h.Extend(t.Context(), 0) },
		"promote": func(t *testing.T, h *padlock.Lock) error { return h.Promote(t.Context()) },
		"demote":  func(t *testing.T, h *padlock.Lock) error { return h.Demote(t.Context()) },
	}
	for name, ask := range ways {
		for _, want := range []error{padlock.ErrLost, padlock.ErrExpired} {
			t.Run(name+" "+want.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newRemote()
					l := newLocker(t, store)
					start := time.Now()
					h := acquire(t, l, "job")
					store.request("extend", fails(want))
					store.request("convert", fails(want))
					ctx := h.Context()
					if err := ask(t, h); err != nil {
						wantOnly(t, err, padlock.Op(name), want)
					}
					synctest.Wait()
					if ctx.Err() == nil || time.Since(start) > 11*time.Second {
						t.Fatalf("not over after %v", time.Since(start))
					}
					wantOnly(t, context.Cause(ctx), "hold", want)
					wantOnly(t, h.Check(t.Context()), "check", want)
					h.Release()
				})
			})
		}
	}
}

// Check and Extend tell a failure of the network from a loss.
func TestANetworkErrorIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		h := acquire(t, l, "job")
		store.request("extend", lost)
		if err := h.Check(t.Context()); !errors.Is(err, errReset) {
			t.Errorf("Check says %v", err)
		}
		wantOnly(t, h.Check(t.Context()), "check")
		wantOnly(t, h.Extend(t.Context(), 0), "extend")
		store.request("extend", fails(driver.ErrUnavailable))
		wantOnly(t, h.Check(t.Context()), "check", padlock.ErrUnavailable)
		store.request("extend", silent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantOnly(t, h.Check(ctx), "check", padlock.ErrUncertain, context.DeadlineExceeded)
		if h.Remaining() == 0 || h.Context().Err() != nil {
			t.Error("a network error alone has ended the lock")
		}
		store.heal()
		if err := h.Check(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, h)
	})
}

// A lock that is bound to a connection ends with it, and the error has the reason.
func TestTheEndOfTheConnectionEndsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		bound, hangUp := context.WithCancelCause(context.Background())
		store.guarantees.Lease = false
		store.grant = func(g *driver.Grant) { g.Bound, g.TTL = bound, 0 }
		l := newLocker(t, store)
		a, b := acquire(t, l, "a"), acquire(t, l, "b")
		if a.Remaining() != 1<<63-1 {
			t.Errorf("%v remain of a lock without a lease", a.Remaining())
		}
		<-time.After(48 * time.Hour)
		if a.Remaining() == 0 || a.Context().Err() != nil {
			t.Fatal("a lock without a lease ended by time")
		}
		if n := len(store.log("extend")); n != 0 {
			t.Errorf("%d renewals of a lock without a lease", n)
		}
		b.Release() // its lease in the memstore is over, so the result does not matter here
		hangUp(errReset)
		synctest.Wait()
		cause := context.Cause(a.Context())
		wantOnly(t, cause, "hold", padlock.ErrLost)
		if !errors.Is(cause, errReset) {
			t.Errorf("%v does not tell why", cause)
		}
		if cause := context.Cause(b.Context()); !errors.Is(cause, padlock.ErrReleased) || errors.Is(cause, padlock.ErrLost) {
			t.Errorf("a lock that was released before ended by %v", cause)
		}
		if n := l.Stats().Lost; n != 1 {
			t.Errorf("%d locks lost, want 1", n)
		}
		a.Release()
	})
}

// With NoRenewal, a lock of a store without leases ends in this process after its TTL. Looking at it
// extends nothing, Extend does, and the store keeps the name until Release.
func TestNoRenewalWithoutLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.guarantees.Lease = false
		store.grant = func(g *driver.Grant) { g.TTL = 0 }
		l := newLocker(t, store)
		k := acquire(t, l, "job", padlock.TTL(10*time.Second), padlock.NoRenewal())
		<-time.After(5 * time.Second)
		if left := k.Remaining(); left != 5*time.Second {
			t.Errorf("%v remain, want 5 s", left)
		}
		if err := k.Extend(t.Context(), 10*time.Second); err != nil {
			t.Error(err)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		wantOnly(t, context.Cause(k.Context()), padlock.OpHold, padlock.ErrExpired, padlock.ErrLost)
		if _, err := newLocker(t, connect(store.Store)).TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("before the Release, another program got %v", err)
		}
		wantOnly(t, k.Release(), padlock.OpRelease, padlock.ErrExpired)
		release(t, acquire(t, l, "job", padlock.Wait(0)), nil)
	})
}

// The connection ends while the release is under way, and the store does not find the hold any
// more. Then the lock may have been lost before the release, and another client may have had it.
func TestAReleaseOverAConnectionThatEnded(t *testing.T) {
	for _, ended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			bound, hangUp := context.WithCancelCause(context.Background())
			defer hangUp(errReset)
			store.guarantees.Lease = false
			store.grant = func(g *driver.Grant) { g.Bound, g.TTL = bound, 0 }
			store.reply("release", first(1, func(context.Context, int) error {
				if ended {
					hangUp(errReset)
				}
				return driver.ErrUncertain
			}))
			err := acquire(t, newLocker(t, store), "job").Release()
			if lost := errors.Is(err, padlock.ErrLost); lost != ended || err != nil && !lost {
				t.Errorf("the connection ended: %v; Release: %v", ended, err)
			}
		})
	}
}

// busyClock lets other goroutines run, for a time of its own, whenever it is asked.
type busyClock struct{ driver.Clock }

func (c busyClock) Now() driver.Instant {
	for range rand.N(1000) {
		runtime.Gosched()
	}
	return c.Clock.Now()
}

// The store answers only the clean-up, which ends the connection of the lock at once. The lock was
// released while it was held, and Release does not say that it was lost.
func TestAReleaseThatTheCleanUpCompletes(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			bound, hangUp := context.WithCancelCause(context.Background())
			store.grant = func(g *driver.Grant) { g.Bound = bound }
			store.request("release", first(3, lost))
			store.reply("release", func(context.Context, int) error { hangUp(padlock.ErrReleased); return nil })
			h := acquire(t, newLocker(t, store, padlock.WithClock(busyClock{driver.SystemClock()})), "job")
			if err := h.Release(); errors.Is(err, padlock.ErrLost) || !errors.Is(err, padlock.ErrUncertain) {
				t.Error(err)
			}
			<-time.After(time.Second)
			if !free(t, store, "job") {
				t.Error("the lock is left behind")
			}
		})
	}
}

// A conversion may move a lock to another connection: the lock then ends with the new connection
// and not with the first one.
func TestAConvertedLockEndsWithItsNewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		first, hangUpFirst := context.WithCancelCause(context.Background())
		second, hangUpSecond := context.WithCancelCause(context.Background())
		bound := first
		store.grant = func(g *driver.Grant) { g.Bound = bound }
		h := acquire(t, newLocker(t, store), "a", padlock.Shared())
		bound = second
		if err := h.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		hangUpFirst(errReset)
		synctest.Wait()
		if err := h.Context().Err(); err != nil {
			t.Fatalf("the end of the connection that it was on before: %v", context.Cause(h.Context()))
		}
		hangUpSecond(errReset)
		synctest.Wait()
		wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrLost)
		h.Release()
	})
}

// A hold that has no lease and that its store does not watch is verified about every two seconds,
// with and without renewal: its lock file may be removed.
func TestAHoldWithoutALeaseIsVerified(t *testing.T) {
	for name, opts := range map[string][]padlock.Option{"renewed": nil, "not renewed": {padlock.NoRenewal()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				store.guarantees.Lease = false
				store.grant = func(g *driver.Grant) { g.TTL = 0 }
				renewed := 0
				l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
					if e.Kind == padlock.EventRenewed {
						renewed++
					}
				})))
				h := acquire(t, l, "job", append(opts, padlock.TTL(time.Hour))...)
				<-time.After(time.Minute)
				if n := len(store.log("extend")); n < 25 || n > 35 {
					t.Errorf("it was verified %d times in a minute", n)
				}
				if h.Remaining() == 0 || renewed > 0 || l.Stats().Renewals > 0 {
					t.Errorf("expired %v, %d events of renewals, %+v", h.Remaining() == 0, renewed, l.Stats())
				}
				store.request("extend", fails(driver.ErrUnavailable)) // that is no loss
				<-time.After(10 * time.Second)
				if h.Remaining() == 0 {
					t.Fatal("a look that failed has ended the lock")
				}
				store.request("extend", fails(driver.ErrLost))
				<-time.After(3 * time.Second)
				wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrLost)
				store.heal()
				_ = h.Release() // the lock is not really lost, so the result does not matter
			})
		})
	}
}

// Release reports a loss even if the store is out of reach: another holder may have worked at the
// same time as the caller.
func TestReleaseOfALostLockWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		lost := acquire(t, l, "lost", padlock.TTL(time.Second))
		limited := acquire(t, l, "limited", padlock.TTL(time.Minute), padlock.HoldAtMost(time.Second))
		store.request("extend", fails(driver.ErrUnavailable))
		<-lost.Context().Done()
		<-limited.Context().Done()
		store.request("release", fails(driver.ErrUnavailable))
		wantOnly(t, lost.Release(), "release", padlock.ErrLost, padlock.ErrUnavailable)
		wantOnly(t, limited.Release(), "release", padlock.ErrMaxHold, padlock.ErrUnavailable)
		store.heal()
	})
}

// A release that begins before HoldAtMost is over, and is repeated after that, is too late for
// HoldAtMost only. The lease has not ended, and the error does not say so.
func TestMaxHoldEndsDuringARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.request("release", first(1, lost))
		h := acquire(t, newLocker(t, s), "job", padlock.HoldAtMost(time.Second))
		<-time.After(time.Second - 5*time.Millisecond)
		wantOnly(t, h.Release(), "release", padlock.ErrMaxHold)
		if !free(t, s, "job") {
			t.Error("the lock is left behind")
		}
	})
}

// After the end of the lease, Extend and Check say as Release does whether another client has taken
// the name since.
func TestLateExtendAndCheck(t *testing.T) {
	for name, ask := range map[string]func(*padlock.Lock) error{
		"extend": func(k *padlock.Lock) error { return k.Extend(context.Background(), time.Minute) },
		"check":  func(k *padlock.Lock) error { return k.Check(context.Background()) },
	} {
		everyKind(t, func(t *testing.T, s padlock.Store) {
			l := newLocker(t, s)
			op := padlock.Op(name)
			k := acquire(t, l, "job", padlock.TTL(300*time.Millisecond), padlock.NoRenewal())
			<-k.Context().Done()
			wantOnly(t, ask(k), op, padlock.ErrExpired) // the lease in the store ends a little later
			<-time.After(time.Second)
			wantOnly(t, ask(k), op, padlock.ErrExpired)
			wantOnly(t, k.Release(), padlock.OpRelease, padlock.ErrExpired)
			k = acquire(t, l, "job", padlock.TTL(300*time.Millisecond), padlock.NoRenewal())
			<-time.After(time.Second)
			next := acquire(t, l, "job")
			wantOnly(t, ask(k), op, padlock.ErrLost)
			wantOnly(t, k.Release(), padlock.OpRelease, padlock.ErrLost)
			release(t, next)
		})
	}
}

// If the store cannot tell what became of a lock that is over, the error is ErrLost.
func TestLateExtendWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		k := acquire(t, l, "job", padlock.TTL(time.Second), padlock.NoRenewal())
		<-k.Context().Done()
		for _, trouble := range []trouble{lost, fails(padlock.ErrUnavailable)} {
			s.request("extend", trouble)
			wantOnly(t, k.Extend(t.Context(), 0), padlock.OpExtend, padlock.ErrLost, padlock.ErrExpired)
		}
		s.heal()
		k.Release()
	})
}

// A lock whose lease ran out has one verdict. Its context ends before anybody can know whether
// another client takes the name, so its cause matches both errors. Every call that asks the store
// returns the one that is true.
func TestOneVerdict(t *testing.T) {
	for what, want := range map[string]error{"nobody since": padlock.ErrExpired, "taken since": padlock.ErrLost} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				l := newLocker(t, s)
				k := acquire(t, l, "job", padlock.TTL(time.Second), padlock.NoRenewal())
				<-k.Context().Done()
				wantOnly(t, context.Cause(k.Context()), padlock.OpHold, padlock.ErrExpired, padlock.ErrLost)
				<-time.After(time.Second)
				if want == padlock.ErrLost {
					release(t, acquire(t, newLocker(t, s.Open()), "job"), nil)
				}
				wantOnly(t, k.Check(t.Context()), padlock.OpCheck, want)
				wantOnly(t, k.Extend(t.Context(), 0), padlock.OpExtend, want)
				wantOnly(t, k.Release(), padlock.OpRelease, want)
			})
		})
	}
}

// watchedContext counts the functions that wait for its end.
type watchedContext struct {
	context.Context
	done     chan struct{}
	watching *int
}

func (c watchedContext) Done() <-chan struct{} { return c.done }

func (c watchedContext) AfterFunc(f func()) (stop func() bool) {
	*c.watching++
	return func() bool { *c.watching--; return true }
}

// A lock that is over no longer watches the connection to which it was bound.
func TestAReleasedLockWatchesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, watching := newRemote(), 0
		bound := watchedContext{context.Background(), make(chan struct{}), &watching}
		store.guarantees.Lease = false
		store.grant = func(g *driver.Grant) { g.Bound, g.TTL = bound, 0 }
		l := newLocker(t, store)
		k := acquire(t, l, "job")
		if watching != 1 {
			t.Errorf("%d functions wait for the end of the connection, want 1", watching)
		}
		release(t, k, nil)
		if watching != 0 {
			t.Errorf("after the release, %d functions wait for the end of the connection", watching)
		}
	})
}
