package facetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
)

// manyNames returns n names in the order in which AcquireAll takes them.
func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("n%04d", i))
	}
	return names
}

// everyRequest is a list of the operations that a silent server does not answer.
var everyRequest = []string{"acquire", "slot", "extend", "release", "wait", "wait slot", "convert", "pass", "raise"}

// fallSilent makes the server silent for all requests that arrive from now on.
func (r *remote) fallSilent() {
	for _, op := range everyRequest {
		r.request(op, silent)
	}
}

// checkFreed checks that the clean-ups have freed all names, soon after the server answers again.
func checkFreed(t *testing.T, s *remote, names []string) {
	t.Helper()
	s.heal()
	<-time.After(10 * time.Second)
	for _, name := range names {
		if !free(t, s, name) {
			t.Errorf("%s is still held, and nobody has it", name)
		}
	}
}

// A server falls silent while AcquireAll waits for the last name. However many names the call has
// taken before, it returns soon after its deadline, and the clean-ups release those names.
func TestAcquireAllOnASilentServerEndsAtItsDeadline(t *testing.T) {
	for _, n := range []int{1, 8, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRemote()
				l := newLocker(t, s)
				names := manyNames(n)
				other := newLocker(t, connect(s.Store))
				last := acquire(t, other, "z")
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				time.AfterFunc(time.Second, s.fallSilent)
				start := time.Now()
				_, err := l.AcquireAll(ctx, append(names, "z"))
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("the call returned after %v", took)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				release(t, last)
				checkFreed(t, s, names)
			})
		})
	}
}

// DoAll and Locks.Release wait about as long as one Release for a server that is silent.
func TestReleaseOfManyNamesOnASilentServer(t *testing.T) {
	const most = 16 * time.Second // Lock.Release promises "about 15 seconds"
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		names := manyNames(100)
		all, err := l.AcquireAll(t.Context(), names, padlock.TTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		s.fallSilent()
		start := time.Now()
		err = all.Release()
		if took := time.Since(start); took > most {
			t.Errorf("Release returned after %v", took)
		}
		if !errors.Is(err, padlock.ErrUncertain) || !errors.Is(err, padlock.ErrUnavailable) {
			t.Error(err)
		}
		checkFreed(t, s, names)
		err = l.DoAll(t.Context(), names, func(context.Context) error { s.fallSilent(); start = time.Now(); return nil }, padlock.TTL(time.Hour))
		if took := time.Since(start); took > most || !errors.Is(err, padlock.ErrUncertain) {
			t.Errorf("DoAll returned after %v: %v", took, err)
		}
		checkFreed(t, s, names)
	})
}

// Other goroutines of this process wait for the names, so each Release tries to pass its lock on.
// Even so, a silent server delays the call only once.
func TestSilentServerWithWaitersInThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay{newRemote()}
		l := newLocker(t, s)
		names := manyNames(20)
		all, err := l.AcquireAll(t.Context(), names, padlock.TTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range names {
			go func() {
				if k, err := l.Acquire(ctx, name, padlock.TTL(time.Hour)); err == nil {
					k.Release()
				}
			}()
		}
		synctest.Wait()
		s.fallSilent()
		start := time.Now()
		if err := all.Release(); !errors.Is(err, padlock.ErrUncertain) {
			t.Error(err)
		}
		if took := time.Since(start); took > 16*time.Second {
			t.Errorf("Release returned after %v", took)
		}
		cancel()
		checkFreed(t, s.remote, names)
	})
}

// A caller with Slots that has the gate gives up when the time of Wait is over, as a caller without
// Slots does, even if the server is silent.
func TestSlotsOnASilentServerEndWithWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		l := newLocker(t, s)
		held := acquire(t, newLocker(t, connect(s.Store)), "job", padlock.Slots(1))
		time.AfterFunc(time.Second, s.fallSilent)
		start := time.Now()
		_, err := l.Acquire(t.Context(), "job", padlock.Slots(1), padlock.Wait(2*time.Second))
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the call returned after %v", took)
		}
		if !errors.Is(err, padlock.ErrHeld) {
			t.Error(err)
		}
		release(t, held)
		checkFreed(t, s, []string{fast.SlotGate("job", 1), fast.SlotName("job", 0)})
	})
}
