package facetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/stores/memstore"
)

// promoters are the kinds of stores with which promotions are tested.
func promoters() map[string]padlock.Store {
	return map[string]padlock.Store{
		"in process": memstore.New(),
		"with queue": newRemote(),
		"polled": struct {
			driver.Store
			driver.Converter
		}{newRemote(), nil},
	}
}

// everyPromoter runs f in a bubble for each of them.
func everyPromoter(t *testing.T, f func(t *testing.T, s padlock.Store)) {
	for name := range promoters() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := promoters()[name]
				if name == "polled" {
					r := newRemote()
					s = struct {
						driver.Store
						driver.Converter
					}{r, r}
				}
				f(t, s)
			})
		})
	}
}

func TestPromoteAndDemote(t *testing.T) {
	everyPromoter(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h := acquire(t, l, "job", padlock.Shared())
		read := h.Fence()
		var readers sync.WaitGroup // the race detector sees whether one reads without the mutex
		readers.Go(func() { h.Fence() })
		readers.Go(func() { h.Shared() })
		if err := h.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
		if h.Shared() || !safety.Rises(t, h.Fence(), read) {
			t.Errorf("promoted: shared %v", h.Shared())
		}
		written := h.Fence()
		if err := h.Promote(t.Context()); err != nil || h.Fence() != written {
			t.Errorf("promoted twice: %v, fence %d after %d", err, h.Fence(), written)
		}
		_, err := l.TryAcquire(t.Context(), "job", padlock.Shared())
		wantOnly(t, err, "acquire", padlock.ErrHeld)
		for range 2 {
			if err := h.Demote(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !h.Shared() || h.Fence() != written {
				t.Errorf("demoted: shared %v, fence %d after %d", h.Shared(), h.Fence(), written)
			}
		}
		acquire(t, l, "job", padlock.Shared()).Release()
		<-time.After(time.Hour) // renewed as ever
		release(t, h)
	})
}

// A promotion waits until the other readers have left, and no new reader gets in meanwhile.
func TestPromoteWaitsForReaders(t *testing.T) {
	everyPromoter(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h, reader := acquire(t, l, "job", padlock.Shared()), acquire(t, l, "job", padlock.Shared())
		start := time.Now()
		time.AfterFunc(10*time.Second, func() { release(t, reader) })
		for at := range 9 {
			time.AfterFunc(time.Duration(at)*time.Second+500*time.Millisecond, func() {
				_, err := l.TryAcquire(context.Background(), "job", padlock.Shared())
				wantOnly(t, err, "acquire", padlock.ErrHeld)
			})
		}
		if err := h.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 11100*time.Millisecond {
			t.Errorf("promoted after %v, the last reader left after 10s", d)
		}
		release(t, h)
	})
}

// Two readers that want to be promoted would wait for each other. The second one gets an error at
// once, keeps its lock, and lets the first one go on when it releases its lock.
func TestTwoPromotions(t *testing.T) {
	everyPromoter(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		a, b := acquire(t, l, "job", padlock.Shared()), acquire(t, l, "job", padlock.Shared())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := a.Promote(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		start := time.Now()
		wantOnly(t, b.Promote(t.Context()), "promote", padlock.ErrPromotionConflict)
		if d := time.Since(start); d != 0 {
			t.Errorf("told after %v", d)
		}
		if err := b.Check(t.Context()); err != nil || !b.Shared() {
			t.Errorf("after a conflict: %v, shared %v", err, b.Shared())
		}
		release(t, b)
		wg.Wait()
		release(t, a)
	})
}

// If the context of a promotion ends, the lock stays shared, and new readers get in again.
func TestPromotionGivenUp(t *testing.T) {
	everyPromoter(t, func(t *testing.T, s padlock.Store) {
		l := newLocker(t, s)
		h, reader := acquire(t, l, "job", padlock.Shared()), acquire(t, l, "job", padlock.Shared())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := h.Promote(ctx)
		wantOnly(t, err, "promote", padlock.ErrHeld, context.DeadlineExceeded)
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("given up after %v", d)
		}
		if !h.Shared() || h.Remaining() == 0 {
			t.Error("the failed promotion has changed the lock")
		}
		for _, h := range []*padlock.Lock{acquire(t, l, "job", padlock.Shared()), reader, h} {
			release(t, h)
		}
	})
}

// A lock ends while it waits for its promotion: the caller gets the reason, and no context error
// that it did not cause.
func TestLockEndsDuringItsPromotion(t *testing.T) {
	ways := map[string]struct {
		end  func(*remote, *padlock.Lock)
		want error
	}{
		"release, while a request hangs": {func(r *remote, h *padlock.Lock) {
			r.request("convert", silent)
			<-time.After(1500 * time.Millisecond)
			h.Release()
		}, padlock.ErrReleased},
		"release": {func(_ *remote, h *padlock.Lock) { h.Release() }, padlock.ErrReleased},
		"loss":    {func(r *remote, h *padlock.Lock) { r.request("extend", fails(driver.ErrLost)) }, padlock.ErrLost},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				l, other := newLocker(t, store), newLocker(t, store.Store.Open())
				h, reader := acquire(t, l, "job", padlock.Shared()), acquire(t, other, "job", padlock.Shared())
				done := make(chan error)
				go func() { done <- h.Promote(t.Context()) }()
				synctest.Wait()
				way.end(store, h)
				<-h.Context().Done()
				start := time.Now()
				err := <-done
				if d := time.Since(start); d != 0 {
					t.Errorf("told %v after the end of the lock", d)
				}
				if !errors.Is(err, way.want) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Promote says %v", err)
				}
				h.Release()
				<-time.After(driver.MaxIntent)
				acquire(t, other, "job", padlock.Shared()).Release()
				release(t, reader)
			})
		})
	}
}

// The reply to a promotion is lost. The request is repeated; if no reply comes, the lock is made
// shared again, as Shared reports.
func TestPromotionWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.reply("convert", first(1, lost))
		l := newLocker(t, store)
		h := acquire(t, l, "job", padlock.Shared())
		if err := h.Promote(t.Context()); err != nil || h.Shared() {
			t.Fatalf("a lost reply was not asked for again: %v", err)
		}
		if err := h.Demote(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.reply("convert", first(3, lost))
		err := h.Promote(t.Context())
		if !errors.Is(err, errReset) || !h.Shared() || h.Remaining() == 0 {
			t.Fatalf("%v, shared %v", err, h.Shared())
		}
		store.heal()
		<-time.After(5 * time.Second)
		reader, err := l.TryAcquire(t.Context(), "job", padlock.Shared())
		if err != nil {
			t.Fatalf("a failed promotion has made the lock exclusive: %v", err)
		}
		release(t, reader)
		release(t, h)
	})
}

// A caller whose demotion got no reply must not believe that it is alone: the lock may be shared.
func TestDemotionWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		demotionWithoutAReply(t, func(store *remote) { store.reply("convert", lost) })
	})
}

// The same is true if the store is out of reach for the repeated request: its error does not settle
// the outcome of the first one.
func TestDemotionWithoutAReplyAndThenNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		demotionWithoutAReply(t, func(store *remote) {
			store.reply("convert", first(1, lost))
			store.request("convert", func(_ context.Context, n int) error {
				if n > 0 {
					return driver.ErrUnavailable
				}
				return nil
			})
		})
	})
}

func demotionWithoutAReply(t *testing.T, trouble func(*remote)) {
	store := newRemote()
	l := newLocker(t, store)
	h := acquire(t, l, "job")
	trouble(store)
	if err := h.Demote(t.Context()); !errors.Is(err, padlock.ErrUncertain) {
		t.Errorf("Demote says %v", err)
	}
	reader := acquire(t, newLocker(t, store.Store.Open()), "job", padlock.Shared())
	if !h.Shared() {
		t.Error("there is another reader, and the lock says that it is exclusive")
	}
	release(t, reader)
	release(t, h)
}

func TestPromotionThatAStoreDoesNotHave(t *testing.T) {
	l := newLocker(t, bare{newRemote()})
	h := acquire(t, l, "job", padlock.Shared())
	wantOnly(t, h.Promote(t.Context()), "promote", errors.ErrUnsupported)
	wantOnly(t, h.Demote(t.Context()), "demote", errors.ErrUnsupported)
	release(t, h)
	wantOnly(t, h.Promote(t.Context()), "promote", padlock.ErrReleased)
	wantOnly(t, h.Demote(t.Context()), "demote", padlock.ErrReleased)
}

// While a promotion waits, the lock is renewed and can be extended.
func TestPromotionDoesNotStopTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newRemote())
		h, reader := acquire(t, l, "job", padlock.Shared()), acquire(t, l, "job", padlock.Shared())
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- h.Promote(ctx) }()
		<-time.After(time.Hour)
		if err := h.Check(t.Context()); err != nil {
			t.Error(err)
		}
		bounded, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		start := time.Now()
		if err := h.Extend(bounded, time.Minute); err != nil || time.Since(start) > time.Second {
			t.Errorf("Extend during a promotion took %v: %v", time.Since(start), err)
		}
		cancel()
		<-done
		release(t, h)
		release(t, reader)
	})
}

// Readers may get in while a demotion is under way, so the lock counts as shared, even in a key
// that is exported then.
func TestSharedWhileADemotionIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l, other := newLocker(t, s), newLocker(t, connect(s.Store))
		h := acquire(t, l, "job")
		s.reply("convert", deaf)
		done := make(chan error, 1)
		go func() { done <- h.Demote(t.Context()) }()
		synctest.Wait()
		reader := acquire(t, other, "job", padlock.Shared())
		if !h.Shared() {
			t.Error("it says that it is exclusive while a reader is in")
		}
		adopted, err := other.Adopt(t.Context(), travel(t, h))
		if err != nil {
			t.Fatal(err)
		}
		if !adopted.Shared() {
			t.Error("who adopts it believes to be alone while a reader is in")
		}
		if err := <-done; err == nil {
			t.Error("a demotion without a reply went well")
		}
		if !h.Shared() {
			t.Error("after a demotion of unknown outcome it says that it is exclusive")
		}
		release(t, reader)
		release(t, adopted)
		h.Release()
	})
}

// A demotion that the store certainly refused leaves the lock exclusive.
func TestDemotionThatIsRefused(t *testing.T) {
	for _, err := range []error{padlock.ErrUnavailable, errors.ErrUnsupported, padlock.ErrInvalid} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			h := acquire(t, newLocker(t, s), "job")
			s.request("convert", fails(err))
			wantOnly(t, h.Demote(t.Context()), "demote", err)
			if h.Shared() {
				t.Errorf("after %v the lock counts as shared", err)
			}
		})
	}
}

// ctx ends while the store is being asked. The promotion is withdrawn, so its outcome is certain:
// the lock is shared as before.
func TestPromotionUnderWayAtTheDeadline(t *testing.T) {
	for refusals, want := range [][]error{{context.DeadlineExceeded}, {padlock.ErrHeld, context.DeadlineExceeded}} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			l := newLocker(t, s)
			h, reader := acquire(t, l, "job", padlock.Shared()), acquire(t, l, "job", padlock.Shared())
			ctx, cancel := context.WithTimeout(t.Context(), driver.MaxIntent)
			defer cancel()
			s.reply("convert", func(_ context.Context, i int) error {
				if i < refusals || ctx.Err() != nil {
					return nil
				}
				return silent(ctx, i)
			})
			wantOnly(t, h.Promote(ctx), "promote", want...)
			if err := h.Check(t.Context()); err != nil || !h.Shared() {
				t.Errorf("after the promotion: %v, shared %v", err, h.Shared())
			}
			release(t, acquire(t, l, "job", padlock.Shared()))
			release(t, h)
			release(t, reader)
		})
	}
}

// A key says which mode the lock is in, so the mode stays.
func TestExportedLockKeepsItsMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		for _, opts := range [][]padlock.Option{nil, {padlock.Shared()}} {
			h := acquire(t, l, "job", opts...)
			key := travel(t, h)
			wantOnly(t, h.Demote(t.Context()), "demote", padlock.ErrInvalid)
			wantOnly(t, h.Promote(t.Context()), "promote", padlock.ErrInvalid)
			if n := len(s.log("convert")); n != 0 {
				t.Errorf("%d conversions", n)
			}
			adopted, err := l.Adopt(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if adopted.Shared() != h.Shared() {
				t.Errorf("shared %v, adopted %v", h.Shared(), adopted.Shared())
			}
			release(t, adopted)
			h.Release()
		}
	})
}

// Promoting an exclusive lock does nothing, even if no reply comes.
func TestPromotionOfAnExclusiveLockWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		h := acquire(t, newLocker(t, s), "job")
		s.reply("convert", first(3, lost))
		wantOnly(t, h.Promote(t.Context()), "promote", padlock.ErrUncertain)
		for _, c := range s.log("convert") {
			if c.shared {
				t.Error("the lock was demoted")
			}
		}
		if h.Shared() {
			t.Error("it counts as shared")
		}
	})
}

// The Locker believes a store that knows the mode of a hold: another program can demote a lock
// whose token it has.
func TestDemotedByAnotherProgram(t *testing.T) {
	for what, ask := range map[string]func(*padlock.Lock) error{
		"Check":   func(h *padlock.Lock) error { return h.Check(context.Background()) },
		"Extend":  func(h *padlock.Lock) error { return h.Extend(context.Background(), 0) },
		"renewal": func(*padlock.Lock) error { <-time.After(padlock.DefaultTTL / 2); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := relay{newRemote()}
				l := newLocker(t, s)
				h := acquire(t, l, "job")
				if err := ask(h); err != nil || h.Shared() {
					t.Fatalf("shared %v, %v", h.Shared(), err)
				}
				s.remote.mu.Lock()
				s.grant = func(g *driver.Grant) { g.Shared = true }
				s.remote.mu.Unlock()
				if err := ask(h); err != nil || !h.Shared() {
					t.Errorf("shared %v, %v", h.Shared(), err)
				}
				// It is not passed on as an exclusive lock.
				w := wait(t, l)
				s.remote.mu.Lock()
				s.grant = nil
				s.remote.mu.Unlock()
				release(t, h)
				release(t, w.lock(t))
				if n := s.requests()["pass"]; n != 0 {
					t.Errorf("%d passings of a shared lock", n)
				}
			})
		})
	}
}

// The same for a lock that is adopted.
func TestAdoptOfWhatAnotherProgramDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		key := travel(t, acquire(t, l, "job"))
		s.grant = func(g *driver.Grant) { g.Shared = true }
		adopted, err := l.Adopt(t.Context(), key)
		if err != nil || !adopted.Shared() {
			t.Fatalf("%v, %v", adopted, err)
		}
		release(t, adopted)
	})
}

// The reply to a request that was sent before a promotion does not count for the mode after it.
func TestLateReplyFromBeforeAPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		h := acquire(t, newLocker(t, s), "job", padlock.Shared())
		s.grant = func(g *driver.Grant) { g.Shared = true }
		s.reply("extend", takes(time.Second))
		done := make(chan error)
		go func() { done <- h.Check(t.Context()) }()
		<-time.After(time.Millisecond)
		if err := h.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || h.Shared() {
			t.Errorf("shared %v, %v", h.Shared(), err)
		}
	})
}
