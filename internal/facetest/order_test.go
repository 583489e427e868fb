package facetest

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// The events of both holds have the way in which the lock was handed over, and the end of the first
// hold comes before the beginning of the next.
func TestHandOvers(t *testing.T) {
	for want, make := range map[padlock.HandOver]func(padlock.LockerOption) *padlock.Locker{
		padlock.HandOverByQueue:   func(o padlock.LockerOption) *padlock.Locker { return padlock.New(memstore.New(), o) },
		padlock.HandOverByRelease: func(o padlock.LockerOption) *padlock.Locker { return padlock.New(relay{newRemote()}, o) },
	} {
		t.Run(want.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				l := make(padlock.Observe(padlock.ObserverFunc(rec.on)))
				h := acquire(t, l, "job")
				w := wait(t, l)
				synctest.Wait()
				release(t, h)
				next := w.lock(t)
				release(t, next)
				events := slices.DeleteFunc(rec.all(), func(e padlock.Event) bool {
					return e.Kind != padlock.EventAcquired && e.Kind != padlock.EventReleased && e.Kind != padlock.EventReleasing
				})
				var by []padlock.HandOver
				released, acquired := 0, 0
				for i, e := range events {
					switch {
					case e.Kind == padlock.EventAcquired:
						by = append(by, e.HandOver)
					case e.Kind == padlock.EventReleased && e.Fence == h.Fence():
						if to := e.HandOver; to != want && want != padlock.HandOverByQueue {
							t.Errorf("the first hold went on by %v", to)
						}
					}
					if e.Kind == padlock.EventReleasing && e.Fence == h.Fence() {
						released = i
					}
					if e.Kind == padlock.EventAcquired && e.Fence == next.Fence() {
						acquired = i
					}
				}
				if !slices.Equal(by, []padlock.HandOver{padlock.NoHandOver, want}) || released > acquired {
					t.Errorf("acquired by %v; events %+v", by, events)
				}
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The events of each lock come in order, whatever goroutines they happen in, and exclusive holds of
// one name do not overlap by their events.
func TestOrderOfEvents(t *testing.T) {
	for name, s := range map[string]func() padlock.Store{
		"in process": func() padlock.Store { return memstore.New() },
		"remote":     func() padlock.Store { return relay{newRemote()} },
	} {
		// In a bubble, a stall of the machine does not use up the patience with an observer.
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec tracer
				l := newLocker(t, s(), padlock.Observe(&rec))
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						for range 200 {
							h, err := l.Acquire(context.Background(), "job")
							if err != nil {
								t.Error(err)
								return
							}
							runtime.Gosched()
							h.Extend(context.Background(), time.Minute)
							release(t, h)
						}
					})
				}
				all.Wait()
				wellFormed(t, rec.all())
				open := false
				for _, e := range rec.all() {
					if e.Kind != padlock.EventAcquired && e.Kind != padlock.EventReleasing {
						continue
					}
					if begins := e.Kind == padlock.EventAcquired; begins == open {
						t.Fatalf("%+v although the hold before has not ended, or none began", e)
					}
					open = !open
				}
			})
		})
	}
}

// wellFormed checks that each hold, which is known by its fence, begins before all else that
// happens to it, ends once, and that each acquire that began has ended.
func wellFormed(t *testing.T, events []padlock.Event) {
	t.Helper()
	began, ended, acquires := map[uint64]bool{}, map[uint64]bool{}, 0
	for i, e := range events {
		wrong := e.Kind >= padlock.EventRenewed && e.Kind <= padlock.EventForgotten && !began[e.Fence]
		switch e.Kind {
		case padlock.EventAcquiring:
			acquires++
		case padlock.EventRefused:
			acquires--
		case padlock.EventAcquired:
			acquires--
			wrong = began[e.Fence]
			began[e.Fence] = true
		case padlock.EventLost, padlock.EventEnded, padlock.EventReleasing:
			wrong = wrong || ended[e.Fence]
			ended[e.Fence] = true
		case padlock.EventConverted: // a promotion has a new fence
			wrong = len(began) == 0
			began[e.Fence] = true
		case padlock.EventRenewed, padlock.EventRenewFailed:
			wrong = wrong || ended[e.Fence]
		case padlock.EventReleased:
			wrong = wrong || !ended[e.Fence]
		}
		if wrong {
			t.Fatalf("event %d, %v, has no place in %+v", i, e.Kind, events)
		}
	}
	if acquires != 0 {
		t.Errorf("%d acquires have no end in %+v", acquires, events)
	}
}

// A hold that ends in the instant of its grant begins first, by its events, even if another
// goroutine passed the lock on and a third one notices the end.
func TestALossAtOnceComesAfterTheGrant(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			var rec recorder
			store := relay{newRemote()}
			l := newLocker(t, store, padlock.Observe(padlock.ObserverFunc(rec.on)))
			h := acquire(t, l, "job")
			w := wait(t, l)
			store.grant = func(g *driver.Grant) { g.Bound = over }
			release(t, h)
			next := w.lock(t)
			<-next.Context().Done()
			next.Release()
			wellFormed(t, rec.all())
		})
	}
}

// Close releases a lock that was passed to a waiter in the instant in which the waiter gave up. The
// waiter leaves while that release is under way: there are no events of a hold that nobody got.
func TestNoEventsOfAHoldThatOnlyCloseHad(t *testing.T) {
	for _, a := range answers {
		if a.what != "granted" {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			p := newPassing(t, a, givesUpLate)
			p.s.request("release", takes(time.Second))
			p.run(t, ", Close after")
			wellFormed(t, p.rec.all())
			if n := len(p.rec.kinds()); n < 5 {
				t.Errorf("only %d events", n)
			}
		})
	}
}
