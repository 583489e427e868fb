package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestReleaseIsIdempotentAndConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("release", takes(time.Second))
		l := newLocker(t, store)
		h := acquire(t, l, "job")
		var wg sync.WaitGroup
		start := time.Now()
		for range 10 {
			wg.Go(func() {
				release(t, h)
				if d := time.Since(start); d != time.Second {
					t.Errorf("a Release returned after %v, the store answered after 1s", d)
				}
			})
		}
		wg.Wait()
		next := acquire(t, newLocker(t, store.Store.Open()), "job")
		release(t, h)
		if n := len(store.log("release")); n != 1 {
			t.Errorf("11 releases sent %d requests", n)
		}
		if err := next.Check(t.Context()); err != nil {
			t.Errorf("a second Release has hurt the next holder: %v", err)
		}
		release(t, next)
		wantOnly(t, h.Check(t.Context()), "check", padlock.ErrReleased)
		wantOnly(t, context.Cause(h.Context()), "hold", padlock.ErrReleased)
	})
}

// The result of Release for each outcome, and for a lock that was over before.
func TestReleaseTellsTheTruth(t *testing.T) {
	outcomes := []struct {
		out                driver.Outcome
		live, over, maxout error
	}{
		{driver.OutcomeReleased, nil, padlock.ErrExpired, padlock.ErrMaxHold},
		{driver.OutcomeInherited, nil, padlock.ErrExpired, padlock.ErrMaxHold},
		{driver.OutcomeExpired, padlock.ErrExpired, padlock.ErrExpired, padlock.ErrExpired},
		{driver.OutcomeTaken, padlock.ErrLost, padlock.ErrLost, padlock.ErrLost},
		{driver.OutcomeGone, padlock.ErrLost, padlock.ErrLost, padlock.ErrLost},
	}
	for _, o := range outcomes {
		for when, want := range map[string]error{"live": o.live, "over": o.over, "after HoldAtMost": o.maxout} {
			t.Run(o.out.String()+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLocker(t, outcome{newRemote(), o.out})
					opts := []padlock.Option{padlock.NoRenewal(), padlock.TTL(time.Second)}
					if when == "after HoldAtMost" {
						opts = append(opts, padlock.HoldAtMost(500*time.Millisecond))
					}
					h := acquire(t, l, "job", opts...)
					if when != "live" {
						<-h.Context().Done()
					}
					err := h.Release()
					if want == nil {
						if err != nil {
							t.Error(err)
						}
						return
					}
					wantOnly(t, err, "release", want)
				})
			})
		}
	}
}

// outcome is a store whose releases return the result that a test sets.
type outcome struct {
	*remote
	out driver.Outcome
}

func (o outcome) Release(context.Context, string, string, time.Duration) (driver.Outcome, error) {
	return o.out, nil
}

func TestReleaseTellsTheTruthOfAStore(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		short := []padlock.Option{padlock.NoRenewal(), padlock.TTL(time.Second)}
		expired, taken := acquire(t, l, "a", short...), acquire(t, l, "b", short...)
		<-time.After(2 * time.Second)
		thief := acquire(t, l, "b")
		wantOnly(t, expired.Release(), "release", padlock.ErrExpired)
		wantOnly(t, taken.Release(), "release", padlock.ErrLost)
		if err := thief.Check(t.Context()); err != nil {
			t.Errorf("the release of an old lock has hurt the new holder: %v", err)
		}
		release(t, thief)
	})
}

// The renewal for which a release waits may find that the lock is lost; the release reports that.
func TestReleaseTellsOfALossThatTheRenewalFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("extend", func(context.Context, int) error { <-time.After(time.Second); return driver.ErrLost })
		l := newLocker(t, outcome{store, driver.OutcomeReleased})
		h := acquire(t, l, "job")
		for len(store.log("extend")) == 0 {
			<-time.After(100 * time.Millisecond)
		}
		wantOnly(t, h.Release(), "release", padlock.ErrExpired)
	})
}

// The reply to a release is lost. The repeated request finds nothing, or even another holder,
// because the first one released the lock.
func TestALostReplyToARelease(t *testing.T) {
	for _, next := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			store.reply("release", first(1, lost))
			l, other := newLocker(t, store), newLocker(t, store.Store.Open())
			h := acquire(t, l, "job")
			var wg sync.WaitGroup
			if next {
				wg.Go(func() {
					h := acquire(t, other, "job") // at once, before the reply is asked for again
					<-time.After(time.Minute)
					release(t, h)
				})
				synctest.Wait()
			}
			release(t, h)
			if n := len(store.log("release")); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
			wg.Wait()
		})
	}
}

// The reply to the release of an exported lock is lost, and the repeated request finds nothing.
// Release cannot know whether its own request ended the lock or an adoption did.
func TestALostReplyToAReleaseAfterExport(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			store.reply("release", first(1, lost))
			l, other := newLocker(t, store), newLocker(t, store.Store.Open())
			h := acquire(t, l, "job")
			key := travel(t, h)
			if adopted {
				k, err := other.Adopt(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				defer release(t, k)
			}
			wantOnly(t, h.Release(), "release", padlock.ErrUncertain)
		})
	}
}

func TestReleaseWhenTheStoreDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		trouble trouble
		want    []error
		atMost  time.Duration
	}{
		"lost":        {lost, []error{padlock.ErrUncertain}, time.Second},
		"uncertain":   {fails(driver.ErrUncertain), []error{padlock.ErrUncertain}, time.Second},
		"unavailable": {fails(driver.ErrUnavailable), []error{padlock.ErrUnavailable}, time.Second},
		"silent":      {silent, []error{padlock.ErrUncertain}, 16 * time.Second},
		"lost, then unavailable": {func(_ context.Context, n int) error {
			if n == 0 {
				return errReset
			}
			return driver.ErrUnavailable
		}, []error{padlock.ErrUncertain, padlock.ErrUnavailable}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				store.request("release", c.trouble)
				l := newLocker(t, store)
				h := acquire(t, l, "job", padlock.TTL(time.Hour))
				ctx, start := h.Context(), time.Now()
				err := h.Release()
				wantOnly(t, err, "release", c.want...)
				if d := time.Since(start); d > c.atMost {
					t.Errorf("Release took %v", d)
				}
				if ctx.Err() == nil {
					t.Error("the context goes on")
				}
				if again := h.Release(); again != err {
					t.Errorf("the second Release says %v, the first said %v", again, err)
				}
				<-time.After(30 * time.Minute) // longer than the default TTL, within the lease
				store.heal()
				<-time.After(5 * time.Second)
				if !free(t, store, "job") {
					t.Error("the release was not tried again until the lease has ended")
				}
			})
		})
	}
}

// The renewal under way is over before the release is sent, and no renewal follows.
func TestReleaseJoinsTheRenewal(t *testing.T) {
	for name, trouble := range map[string]trouble{"hears": silent, "deaf": func(context.Context, int) error {
		<-time.After(2 * time.Second)
		return nil
	}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				var ended time.Time
				store.request("extend", func(ctx context.Context, n int) error {
					defer func() { ended = time.Now() }()
					return trouble(ctx, n)
				})
				var rec recorder
				l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)))
				h := acquire(t, l, "job")
				for len(store.log("extend")) == 0 {
					<-time.After(100 * time.Millisecond)
				}
				start := time.Now()
				release(t, h)
				if d := time.Since(start); d > 0 && name == "hears" {
					t.Errorf("the release waited %v for a renewal that could be cancelled", d)
				}
				sent := store.log("release")[0].at
				if ended.IsZero() || sent.Before(ended) {
					t.Errorf("the release was sent at %v, the renewal ended at %v", sent, ended)
				}
				<-time.After(time.Hour)
				if n := len(store.log("extend")); n != 1 {
					t.Errorf("%d renewals after the release", n-1)
				}
				if slices.Contains(rec.kinds(), padlock.EventRenewFailed) || l.Stats().RenewalErrors != 0 {
					t.Errorf("the renewal that the release broke off counts as a failure: %v", rec.kinds())
				}
			})
		})
	}
}

// Renewals wait for a worker while others hang. A release does not wait for a renewal that has not
// been sent yet, and such a renewal is never sent.
func TestReleaseOfALockThatWaitsForItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.request("extend", deaf)
		l := newLocker(t, store)
		var held []*padlock.Lock
		for i := range 100 {
			held = append(held, acquire(t, l, fmt.Sprint(i)))
		}
		<-time.After(11500 * time.Millisecond) // all renewals are due, and each worker has sent one
		sent := store.log("extend")
		for _, h := range held {
			tokens := map[string]bool{}
			for _, c := range sent {
				tokens[c.name] = true
			}
			if !tokens[h.Name()] {
				start := time.Now()
				release(t, h)
				if d := time.Since(start); d > time.Second {
					t.Errorf("a release waited %v for a renewal that was not sent", d)
				}
				break
			}
		}
		if len(sent) >= 100 {
			t.Fatal("all were sent; the test is worth nothing")
		}
		store.heal()
		for _, h := range held {
			h.Release()
		}
	})
}

func TestCoolDown(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		for _, c := range []struct {
			acquire padlock.Option
			release []padlock.ReleaseOption
			want    time.Duration
		}{
			{padlock.CoolDown(5 * time.Second), nil, 5 * time.Second},
			{padlock.CoolDown(5 * time.Second), []padlock.ReleaseOption{padlock.CoolDown(2 * time.Second)}, 2 * time.Second},
			{padlock.TTL(time.Second), []padlock.ReleaseOption{padlock.CoolDown(3 * time.Second)}, 3 * time.Second},
			{padlock.CoolDown(5 * time.Second), []padlock.ReleaseOption{padlock.CoolDown(0)}, 0},
		} {
			h := acquire(t, l, "job", c.acquire)
			release(t, h, c.release...)
			start := time.Now()
			if c.want > 0 {
				_, err := l.TryAcquire(t.Context(), "job")
				wantOnly(t, err, "acquire", padlock.ErrHeld)
				var held *padlock.HeldError
				if !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Cooling {
					t.Errorf("%v does not tell of a cool-down", err)
				}
			}
			acquire(t, l, "job").Release()
			if d := time.Since(start); d < c.want || d > c.want+50*time.Millisecond {
				t.Errorf("cooled down for %v, want %v", d, c.want)
			}
		}
	})
}

// A cool-down that is out of range does not keep Release from releasing the lock. A cool-down that
// is too short or too long is cut, and the error says so.
func TestCoolDownOutOfRange(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		for bad, want := range map[time.Duration]time.Duration{
			-1: 0, 1: driver.MinTTL, 40 * time.Millisecond: driver.MinTTL, 25 * time.Hour: driver.MaxTTL,
		} {
			h := acquire(t, l, "job")
			start := time.Now()
			err := h.Release(padlock.CoolDown(bad))
			wantOnly(t, err, "release", padlock.ErrInvalid)
			if again := h.Release(); again != err {
				t.Errorf("a second Release: %v", again)
			}
			wantOnly(t, h.Check(t.Context()), "check", padlock.ErrReleased)
			<-time.After(want - driver.MinTTL - time.Since(start)) // whoever waits for a day polls for a day
			acquire(t, l, "job").Release()
			if d := time.Since(start); d < want || d > want+50*time.Millisecond {
				t.Errorf("cool-down of %v: the name was free after %v, want %v", bad, d, want)
			}
		}
		all, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Release(padlock.CoolDown(-time.Second)); !errors.Is(err, padlock.ErrInvalid) {
			t.Error(err)
		}
		if all, err = l.AcquireAll(t.Context(), []string{"a", "b"}, padlock.Wait(0)); err != nil {
			t.Error(err)
		} else if err := all.Release(); err != nil {
			t.Error(err)
		}
	})
}

// ReleaseKey releases the lock even if the cool-down is out of range.
func TestCoolDownOfAKeyOutOfRange(t *testing.T) {
	l := newLocker(t, newRemote())
	key, err := acquire(t, l, "job").Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantOnly(t, l.ReleaseKey(t.Context(), key, padlock.CoolDown(-time.Second)), "release", padlock.ErrInvalid)
	release(t, acquire(t, l, "job", padlock.Wait(0)))
}

func TestHoldAtLeast(t *testing.T) {
	everyKind(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		start := time.Now()
		h := acquire(t, l, "job", padlock.HoldAtLeast(time.Minute), padlock.TTL(time.Second))
		<-time.After(20 * time.Second)
		release(t, h)
		acquire(t, l, "job").Release()
		if d := time.Since(start); d < time.Minute || d > time.Minute+50*time.Millisecond {
			t.Errorf("released after 20 s, the name stayed taken for %v, want 1m0s", d)
		}
	})
}

// Close releases the lock, and the name stays taken for the rest of the time.
func TestHoldAtLeastAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := memstore.New()
		start, l := time.Now(), padlock.New(space.Open())
		acquire(t, l, "job", padlock.HoldAtLeast(time.Minute))
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, acquire(t, newLocker(t, space), "job"))
		if d := time.Since(start); d < time.Minute {
			t.Errorf("the name stayed taken for %v", d)
		}
	})
}

// If the process dies, the first lease keeps the name taken, and no renewal ends it earlier.
func TestHoldAtLeastOfADeadProcess(t *testing.T) {
	for when, alive := range map[string]func(*testing.T, *remote, *padlock.Lock){
		"at once": func(*testing.T, *remote, *padlock.Lock) {},
		"after an Extend": func(t *testing.T, _ *remote, h *padlock.Lock) {
			if err := h.Extend(t.Context(), time.Second); err != nil {
				t.Error(err)
			}
		},
		"after two renewals": func(_ *testing.T, s *remote, _ *padlock.Lock) {
			for len(s.log("extend")) < 2 {
				<-time.After(time.Second)
			}
		},
	} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := newRemote(), time.Now()
				alive(t, s, acquire(t, newLocker(t, s), "job", padlock.TTL(15*time.Second), padlock.HoldAtLeast(50*time.Second)))
				for _, op := range []string{"extend", "release"} {
					s.request(op, lost)
				}
				release(t, acquire(t, newLocker(t, connect(s.Store)), "job"))
				if d := time.Since(start); d < 50*time.Second {
					t.Errorf("the name stayed taken for %v", d)
				}
				s.heal()
			})
		})
	}
}

// A cool-down at a store that has none is not ignored: Acquire refuses it, and Release says that
// there is none.
func TestCoolDownThatAStoreDoesNotHave(t *testing.T) {
	store := newRemote()
	store.guarantees.CoolDown = false
	l := newLocker(t, store)
	for _, o := range []padlock.Option{padlock.CoolDown(time.Second), padlock.HoldAtLeast(time.Second)} {
		_, err := l.Acquire(t.Context(), "job", o)
		wantOnly(t, err, "acquire", errors.ErrUnsupported)
	}
	if n := len(store.log("acquire")); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	h := acquire(t, l, "job")
	wantOnly(t, h.Release(padlock.CoolDown(time.Second)), "release", errors.ErrUnsupported)
	release(t, acquire(t, l, "job", padlock.Wait(0)))
}

// Inside Do and out: Release takes no context, so that a cancelled caller releases too.
func TestReleaseAfterTheCallersContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		l := newLocker(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		h, err := l.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		release(t, h)
		if !free(t, store, "job") || store.log("release")[0].ctx.Err() != nil {
			t.Error("released on the context of the caller")
		}
	})
}
