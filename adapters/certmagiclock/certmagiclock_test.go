package certmagiclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/certmagiclock"
	"github.com/padlock-go/padlock/padlocktest"
)

const name = "issue_cert_*.example.com"

func TestLockAndUnlock(t *testing.T) {
	l, script := padlocktest.New(t)
	s, other := certmagiclock.New(l), certmagiclock.New(padlock.New(script.Peer()))
	if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := other.TryLock(t.Context(), name); ok || err != nil {
		t.Errorf("another server: %v, %v", ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Lock honours its context
	if err := other.Lock(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
		t.Errorf("a lock that is held: %v", err)
	}
	if err := s.Unlock(ctx, name); err != nil { // Unlock does not
		t.Error(err)
	}
	if err := other.Lock(t.Context(), name); err != nil {
		t.Errorf("after the release: %v", err)
	}
	for what, err := range map[string]error{"Unlock": s.Unlock(t.Context(), name), "RenewLockLease": s.RenewLockLease(t.Context(), name, time.Hour)} {
		if err == nil {
			t.Errorf("%s of a name that is not locked here", what)
		}
	}
	if state, err := l.Inspect(t.Context(), certmagiclock.Prefix+name); err != nil || len(state.Holds) != 1 {
		t.Errorf("%v, %v", state, err)
	}
}

// A server crashes after certmagic has asked for a lease of 30 days. The name is free again after
// the TTL of the lock.
func TestALeaseStaysShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		s := certmagiclock.New(l)
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := s.RenewLockLease(t.Context(), name, 30*24*time.Hour); err != nil {
			t.Errorf("certmagic takes an error for a failed try: %v", err)
		}
		script.Fail(padlocktest.All, padlocktest.Always, padlock.ErrUnavailable) // as good as a crash
		other := padlock.New(script.Peer())
		start := time.Now()
		lock, err := other.Acquire(t.Context(), certmagiclock.Prefix+name, padlock.Wait(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
		if d := time.Since(start); d > padlock.DefaultTTL+time.Second {
			t.Errorf("the name was free after %v", d)
		}
		other.Close(t.Context())
	})
}

// A lock is lost, and another goroutine of the process takes it anew. The tries of both owners go
// on under its lock, because certmagic would repeat a failed try for 30 days.
func TestLoss(t *testing.T) {
	l, script := padlocktest.New(t)
	s := certmagiclock.New(l)
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	script.Lose(certmagiclock.Prefix + name)
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
		t.Errorf("one of the two owners: %v", err)
	}
	if err := s.Unlock(t.Context(), name); err != nil { // the first owner
		t.Errorf("a lost lock does not count as released: %v", err)
	}
	if ok, err := s.TryLock(t.Context(), name); ok || err != nil {
		t.Errorf("the Unlock of a lost lock has released the lock of its successor: %v, %v", ok, err)
	}
	if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
		t.Errorf("the successor: %v", err)
	}
	if err := s.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// A server loses its lock between two tries. The next try takes the lock again, as soon as no other
// server has it.
func TestALostLockIsTakenAgain(t *testing.T) {
	l, script := padlocktest.New(t)
	s, other := certmagiclock.New(l), certmagiclock.New(padlock.New(script.Peer()))
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	script.Lose(certmagiclock.Prefix + name)
	if err := other.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.RenewLockLease(t.Context(), name, time.Hour); !errors.Is(err, padlock.ErrHeld) {
			t.Errorf("another server has the lock: %v", err)
		}
	}
	if err := other.Unlock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
			t.Error(err)
		}
		if ok, err := other.TryLock(t.Context(), name); ok || err != nil {
			t.Errorf("the lock was not taken again: %v, %v", ok, err)
		}
	}
	if err := s.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
	if ok, err := other.TryLock(t.Context(), name); !ok || err != nil {
		t.Errorf("after the release: %v, %v", ok, err)
	}
}

// The store is away for longer than the lease, and then for a moment.
func TestATryWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		s := certmagiclock.New(l)
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		script.Fail(padlocktest.Extend, 1, padlock.ErrUnavailable)
		if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
			t.Errorf("the lease still lasts: %v", err)
		}
		script.Fail(padlocktest.All, padlocktest.Always, padlock.ErrUnavailable)
		<-time.After(2 * padlock.DefaultTTL)
		if err := s.RenewLockLease(t.Context(), name, time.Hour); !errors.Is(err, padlock.ErrUnavailable) {
			t.Errorf("the lease is over: %v", err)
		}
		script.Heal()
		if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
			t.Errorf("the store is back: %v", err)
		}
		if ok, err := s.TryLock(t.Context(), name); ok || err != nil {
			t.Errorf("the lock was not taken again: %v, %v", ok, err)
		}
	})
}

// Unlock is called while RenewLockLease takes a lost lock again. No lock is left.
func TestUnlockDuringATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		s := certmagiclock.New(l)
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		script.Lose(certmagiclock.Prefix + name)
		script.Delay(padlocktest.Acquire, time.Second)
		time.AfterFunc(500*time.Millisecond, func() {
			if err := s.Unlock(t.Context(), name); err != nil {
				t.Error(err)
			}
		})
		if err := s.RenewLockLease(t.Context(), name, time.Hour); err == nil {
			t.Error("the name counts as locked")
		}
		if ok, err := s.TryLock(t.Context(), name); !ok || err != nil {
			t.Errorf("the name is not free: %v, %v", ok, err)
		}
	})
}

// If the store does not reply, the lock counts as released, and is released later.
func TestUnlockOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, script := padlocktest.New(t)
		s := certmagiclock.New(l)
		if err := s.Lock(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		script.Fail(padlocktest.Release, 1, padlock.ErrUnavailable)
		if err := s.Unlock(t.Context(), name); err != nil {
			t.Error(err)
		}
		if _, err := s.TryLock(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsOfTheStore(t *testing.T) {
	l, script := padlocktest.New(t)
	s := certmagiclock.New(l)
	script.Fail(padlocktest.Acquire, padlocktest.Always, padlock.ErrUnavailable)
	if ok, err := s.TryLock(t.Context(), name); ok || !errors.Is(err, padlock.ErrUnavailable) {
		t.Errorf("%v, %v", ok, err)
	}
	if err := s.Lock(t.Context(), name); !errors.Is(err, padlock.ErrUnavailable) {
		t.Error(err)
	}
}
