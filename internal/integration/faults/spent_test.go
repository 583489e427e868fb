package faults

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
)

// Waiters stand in the queue of the first member, whose way falls silent until the holder releases.
// That member then releases their tokens late, so its vote for such a token must not count. With
// that vote the waiters would hold one member of three, because the third one has somebody else's
// hold for a moment. A second caller would get the two others.
func TestWaitFailsAtOneMember(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	const rounds, names = 25, 40
	r := newRack(t, 3)
	holder, second := r.client(), r.client()
	first, next, third := r.direct(0), r.direct(1), r.direct(2)
	twice := 0
	for range rounds {
		waiter := r.client()
		waiters := padlock.New(waiter.Store, padlock.KeepStoreOpen())
		held, others := make([]driver.Request, names), make([]driver.Request, names)
		locks := make([]*padlock.Lock, names)
		var waiting, releasing sync.WaitGroup
		for i := range names {
			held[i], others[i] = request(fmt.Sprint("job ", i)), request(fmt.Sprint("job ", i))
			take(t, third, &others[i])
			take(t, holder, &held[i])
			waiting.Go(func() {
				var err error
				if locks[i], err = waiters.Acquire(t.Context(), held[i].Name, padlock.TTL(30*time.Second)); err != nil {
					t.Errorf("Acquire: %v", err)
				}
			})
		}
		eventually(t, "all wait in a queue", func() bool { return queued(t, first)+queued(t, next) == names })
		waiter.ways[0].Silence(true)
		eventually(t, "all wait in the queue of the second member", func() bool { return queued(t, next) == names })
		waiter.ways[0].Silence(false)
		for i := range names {
			releasing.Go(func() { free(t, holder, held[i]) })
		}
		releasing.Wait()
		waiting.Wait()
		for i, lock := range locks {
			if lock == nil {
				continue
			}
			free(t, third, others[i])
			other := request(held[i].Name)
			if _, err := second.Acquire(t.Context(), other); err == nil && lock.Context().Err() == nil {
				twice++
			} else if !errors.Is(err, driver.ErrHeld) {
				t.Errorf("Acquire of a second caller: %v", err)
			}
			lock.Release()
			second.Release(t.Context(), other.Name, other.Token.Text(), 0)
		}
		if err := waiters.Close(t.Context()); err != nil {
			t.Error(err)
		}
		r.nothingLeft()
	}
	if twice > 0 {
		safety.TwoHold(t, "the lock has a holder already, %d times of %d", twice, rounds*names)
	}
}

// queued returns how many waiters stand in the queues of a member.
func queued(t *testing.T, s driver.Admin) (n int) {
	t.Helper()
	states, err := s.List(t.Context(), "")
	for _, st := range states {
		n += st.Waiters
	}
	if err != nil {
		return -1
	}
	return n
}
