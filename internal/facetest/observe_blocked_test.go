package facetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// An observer that never returns from one event costs no other lock its lease, and Close ends with
// its context.
func TestObserverThatBlocks(t *testing.T) {
	for kind := padlock.EventAcquiring; kind <= padlock.EventDropped; kind++ {
		if kind == padlock.EventForgotten { // it needs a garbage collection; it comes as EventLost comes
			continue
		}
		t.Run(kind.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { blockObserver(t, kind) }) })
	}
}

func blockObserver(t *testing.T, kind padlock.EventKind) {
	s := newRemote()
	unblock, lost := make(chan struct{}), atomic.Int32{}
	l := padlock.New(s, padlock.KeepStoreOpen(), padlock.TTL(3*time.Second), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
		switch {
		case e.Name == "blocked" && e.Kind == kind:
			<-unblock
		case e.Name != "blocked" && e.Kind == padlock.EventLost:
			lost.Add(1)
		}
	})))
	var locks []*padlock.Lock
	for i := range 40 {
		locks = append(locks, acquire(t, l, fmt.Sprint(i)))
	}
	caused := make(chan struct{})
	go func() { defer close(caused); causeEvents(s, l) }()
	<-time.After(time.Minute)
	for i, k := range locks {
		if err := k.Check(t.Context()); err != nil {
			t.Errorf("lock %d: %v", i, err)
			break
		}
	}
	if n := lost.Load(); n != 0 {
		t.Errorf("%d other locks were lost", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	start := time.Now()
	err := l.Close(ctx)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Close took %v: %v", took, err)
	}
	if states, err := s.List(t.Context(), ""); err != nil || len(states) > 1 {
		t.Errorf("%d locks are left, %v", len(states), err)
	}
	close(unblock)
	<-caused
}

// causeEvents makes an event of every kind for the name "blocked".
func causeEvents(s *remote, l *padlock.Locker) {
	ctx := context.Background()
	// Acquiring, contended and refused:
	s.Store.Acquire(ctx, driver.Request{Name: "blocked", Token: driver.TokenOf("other"), TTL: time.Second})
	l.TryAcquire(ctx, "blocked")
	<-time.After(2 * time.Second)
	// Acquired, converted, renewed, renewal failed, releasing and released:
	if k, err := l.TryAcquire(ctx, "blocked", padlock.Shared()); err == nil {
		k.Promote(ctx)
		<-time.After(10 * time.Second)
		s.request("extend", first(40, lost))
		<-time.After(2 * time.Second)
		k.Release()
	}
	// Uncertain and cleaned up; uncertain and dropped:
	s.reply("acquire", first(3, lost))
	l.TryAcquire(ctx, "blocked")
	<-time.After(5 * time.Second)
	s.reply("acquire", first(3, lost))
	s.request("release", lost)
	l.TryAcquire(ctx, "blocked")
	<-time.After(10 * time.Second)
	s.heal()
	// Ended and lost:
	if k, err := l.TryAcquire(ctx, "blocked", padlock.HoldAtMost(time.Second)); err == nil {
		<-k.Context().Done()
		k.Release()
	}
	if k, err := l.TryAcquire(ctx, "blocked"); err == nil {
		if state, err := s.Inspect(ctx, "blocked"); err == nil {
			s.Store.Break(ctx, "blocked", state.Fence)
		}
		<-k.Context().Done()
		k.Release()
	}
}

// An observer that is slow delays Close, but not beyond its context. It costs no lock.
func TestObserverThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := batching{newRemote()}
		var lost atomic.Int32
		done := make(chan struct{})
		l := padlock.New(s, padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
			switch e.Kind {
			case padlock.EventLost:
				lost.Add(1)
			case padlock.EventRenewed:
				select {
				case <-time.After(200 * time.Millisecond):
				case <-done:
				}
			}
		})))
		for i := range 1000 {
			acquire(t, l, fmt.Sprint(i))
		}
		<-time.After(5 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := l.Close(ctx)
		if took := time.Since(start); took > 5*time.Second || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close took %v: %v", took, err)
		}
		if n := lost.Load(); n != 0 {
			t.Errorf("%d locks were lost", n)
		}
		close(done)
	})
}

// While an observer does not return, the events of renewals do not pile up.
func TestEventsOfALateObserverDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unblock, events := make(chan struct{}), 0
		l := newLocker(t, newRemote(), padlock.TTL(time.Second), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
			if events++; e.Kind == padlock.EventRenewed {
				<-unblock
			}
		})))
		k := acquire(t, l, "job")
		<-time.After(time.Hour)
		close(unblock)
		release(t, k)
		if events > 200 {
			t.Errorf("%d events", events)
		}
	})
}

// An observer that is late with an event of a lock does not use up its lease: the lock is renewed
// until the release is sent, and nobody else gets it before.
func TestLateObserverUsesNoLease(t *testing.T) {
	for _, kind := range []padlock.EventKind{padlock.EventRenewed, padlock.EventReleasing} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				var kinds []padlock.EventKind
				first := true
				l := padlock.New(s, padlock.TTL(300*time.Millisecond), padlock.Observe(padlock.ObserverFunc(func(_ context.Context, e padlock.Event) {
					if kinds = append(kinds, e.Kind); e.Kind == kind && first {
						first = false
						<-time.After(2 * time.Second)
					}
				})))
				other := padlock.New(s, padlock.KeepStoreOpen())
				err := l.Do(t.Context(), "job", func(ctx context.Context) error {
					<-time.After(200 * time.Millisecond)
					time.AfterFunc(900*time.Millisecond, func() {
						if _, err := other.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
							t.Errorf("the release was not sent yet, and another program got %v", err)
						}
					})
					return ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
				<-time.After(3 * time.Second)
				last := len(kinds) - 2
				if last < 0 || kinds[last] != padlock.EventReleasing || kinds[last+1] != padlock.EventReleased {
					t.Errorf("the events were %v", kinds)
				}
				l.Close(t.Context())
			})
		})
	}
}
