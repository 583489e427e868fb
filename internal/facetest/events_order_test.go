package facetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// take returns the kinds of the events of name, and forgets all events. It leaves out
// EventReleased: after a hand-over, it may come before or after the next EventAcquired.
func (r *recorder) take(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []string
	for _, e := range r.events {
		if e.Name == name && e.Kind != padlock.EventReleased {
			kinds = append(kinds, e.Kind.String())
		}
	}
	r.events = nil
	return strings.Join(kinds, ", ")
}

// elsewhere is a memstore that says that it is not in this process.
type elsewhere struct{ *memstore.Store }

func (s elsewhere) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.InProcess = false
	return g
}

// All stores have the same events in the same order, also a store in this process.
func TestSameEventsForEveryStore(t *testing.T) {
	for what, s := range map[string]func() padlock.Store{
		"in process": func() padlock.Store { return memstore.New() },
		"elsewhere":  func() padlock.Store { return elsewhere{memstore.New()} },
	} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { orderOfEvents(t, s()) }) })
	}
}

func orderOfEvents(t *testing.T, s padlock.Store) {
	var rec recorder
	l := newLocker(t, s, padlock.Observe(padlock.ObserverFunc(rec.on)))
	want := func(what, name, kinds string) {
		t.Helper()
		synctest.Wait()
		if got := rec.take(name); got != kinds {
			t.Errorf("%s: the events are %q, want %q", what, got, kinds)
		}
	}
	k := acquire(t, l, "a", padlock.TTL(30*time.Second))
	want("an acquire", "a", "acquiring, acquired")
	<-time.After(25 * time.Second)
	want("renewals", "a", "renewed, renewed")
	if _, err := l.TryAcquire(t.Context(), "a"); !errors.Is(err, padlock.ErrHeld) {
		t.Fatal(err)
	}
	want("a refusal", "a", "acquiring, contended, refused")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx, "a"); err == nil {
		t.Fatal("the name is free")
	}
	want("a timeout", "a", "acquiring, contended, refused")
	go l.Do(t.Context(), "a", func(context.Context) error { return nil })
	want("a waiter", "a", "acquiring, contended")
	release(t, k)
	release(t, k)
	want("a hand-over", "a", "releasing, acquired, releasing")
	k = acquire(t, l, "b", padlock.HoldAtMost(time.Second))
	<-k.Context().Done()
	k.Release()
	want("HoldAtMost", "b", "acquiring, acquired, ended")
	k = acquire(t, l, "c", padlock.Shared())
	state, err := l.Inspect(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Break(t.Context(), "c", state.Fence); err != nil {
		t.Fatal(err)
	}
	k.Check(t.Context())
	k.Release()
	want("a loss", "c", "acquiring, acquired, lost")
	all, err := l.AcquireAll(t.Context(), []string{"d", "e"})
	if err != nil {
		t.Fatal(err)
	}
	all.Release()
	want("several names", "e", "acquiring, acquired, releasing")
	k = acquire(t, l, "f", padlock.Slots(2))
	release(t, k)
	want("a permit", "f", "acquiring, acquired, releasing")
	if _, err := l.Acquire(t.Context(), "g", padlock.Wait(-1)); err == nil {
		t.Fatal("the call is valid")
	}
	want("an invalid call", "g", "acquiring, refused")
}
