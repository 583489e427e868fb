package soak

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memstore"
)

// TestLastLookWaitsForDeadWaiters: when all workers have gone, the waiters that are still in the
// queue are those of killed workers, and each of them may cost the time of a reservation.
func TestLastLookWaitsForDeadWaiters(t *testing.T) {
	s := memstore.New()
	l := padlock.New(s)
	t.Cleanup(func() { l.Close(t.Context()) })
	r := &Run{Guarantees: s.Guarantees()}
	if _, err := s.Acquire(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf("holder"), TTL: 50 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if d := r.delayOfDead(t.Context(), l, "job"); d != 0 {
		t.Errorf("without waiters: %v", d)
	}
	for _, token := range []string{"a", "b", "c"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Wait(ctx, driver.Request{Name: "job", Token: driver.TokenOf(token), TTL: 50 * time.Second}, true)
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	for {
		if st, err := s.Inspect(t.Context(), "job"); err != nil || st.Waiters == 3 {
			break
		}
		<-time.After(time.Millisecond)
	}
	if d := r.delayOfDead(t.Context(), l, "job"); d != 3*driver.MaxReservation {
		t.Errorf("with three waiters: %v", d)
	}
	r.Guarantees.DeadWaiter = 2 * time.Second
	if d := r.delayOfDead(t.Context(), l, "job"); d != 6*time.Second {
		t.Errorf("with three waiters that cost 2 s each: %v", d)
	}
}

// TestLastLookAfterNoAnswer: a call of the engine whose outcome is not known may have the lock
// itself, so the next call is not refused by another's hold. Without such a call, a held name that
// should be free is a violation at once.
func TestLastLookAfterNoAnswer(t *testing.T) {
	s := memstore.New()
	l := padlock.New(s)
	t.Cleanup(func() { l.Close(t.Context()) })
	r := &Run{Guarantees: s.Guarantees(), Load: Load{MaxTTL: 10 * time.Second}, monitor: NewMonitor()}
	hold := func(name string, ttl time.Duration) {
		t.Helper()
		if _, err := s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf("lost"), TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	hold("kept", 50*time.Second) // on a busy machine, a short lease may end before the engine asks
	_, err := r.askUntilGranted(t.Context(), 0, func() (*padlock.Lock, error) { return l.TryAcquire(t.Context(), "kept") })
	if !errors.Is(err, padlock.ErrHeld) {
		t.Errorf("a name that somebody holds: %v", err)
	}
	hold("job", 200*time.Millisecond)
	first := true
	lock, err := r.askUntilGranted(t.Context(), 0, func() (*padlock.Lock, error) {
		if first {
			first = false
			return nil, padlock.ErrUncertain
		}
		return l.TryAcquire(t.Context(), "job")
	})
	if err != nil {
		t.Fatalf("after a call without an answer: %v", err)
	}
	lock.Release()
}

// TestKeptByDead: a killed process may leave a lock behind that only the store knows. A store with
// long leases keeps it for longer than the fault excuses.
func TestKeptByDead(t *testing.T) {
	kept := func(g driver.Guarantees) time.Duration {
		r := &Run{Guarantees: g, Load: DefaultLoad().fitTo(&g)}
		return r.keptByDead()
	}
	for _, c := range []struct {
		store driver.Guarantees
		want  time.Duration
	}{
		{driver.Guarantees{}, 0},
		{driver.Guarantees{DeadWaiter: 10 * time.Second}, 10 * time.Second},
		{driver.Guarantees{MinTTL: 10 * time.Second}, 21 * time.Second}, // Kubernetes: the lease, and once more by observation
		{driver.Guarantees{MinTTL: 2 * time.Second, DeadWaiter: 6 * time.Second}, 6 * time.Second},
	} {
		if got := kept(c.store); got != c.want {
			t.Errorf("MinTTL %v, DeadWaiter %v: %v, want %v", c.store.MinTTL, c.store.DeadWaiter, got, c.want)
		}
	}
}
