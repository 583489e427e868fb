package handover

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// patience is how long a test waits for an event.
const patience = 60 * time.Second

const name = "job"

// layouts are the ways in which locks are kept.
var layouts = map[string][]redisstore.Option{"set": nil, "string": {redisstore.PlainStrings()}}

// yard is a server with the processes that use it.
type yard struct {
	t       *testing.T
	ctx     context.Context
	addr    string
	layout  []redisstore.Option
	seen    fence.Register
	inside  atomic.Pointer[padlock.Lock] // of the caller that uses the lock
	highest atomic.Uint64
	turns   atomic.Int64
	late    atomic.Int64 // how many holds were lost because the machine stood still
}

func everyLayout(t *testing.T, f func(y *yard)) {
	srv := server.Redis(t, server.RedisOptions{})
	for layout, opts := range layouts {
		t.Run(layout, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			opts := append(opts, redisstore.Prefix(layout+":"), redisstore.RestartGuard(redisstore.GuardOff))
			f(&yard{t: t, ctx: ctx, addr: srv.Addr(), layout: opts})
		})
	}
}

// process is what another process would have: a client and a Locker of its own.
func (y *yard) process(opts ...padlock.LockerOption) *padlock.Locker {
	y.t.Helper()
	s, err := redisstore.Open(y.ctx, redisstore.Config{Addrs: []string{y.addr}, Dial: server.PatientDial}, y.layout...)
	if err != nil {
		y.t.Fatal(err)
	}
	l := padlock.New(s, opts...)
	y.t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			y.t.Errorf("Close: %v", err)
		}
	})
	return l
}

// once takes the lock, checks that it is the only holder and that its fence is greater than all
// earlier ones, and releases the lock.
func (y *yard) once(l *padlock.Locker) bool {
	h, err := l.Acquire(y.ctx, name)
	if err != nil {
		if y.ctx.Err() == nil {
			y.t.Error(err)
		}
		return false
	}
	until := validUntil(h)
	if other := y.inside.Swap(h); other != nil && valid(other) && valid(h) {
		y.t.Error("SAFETY: two hold the lock")
	}
	if last := y.highest.Swap(h.Fence()); h.Fence() <= last && valid(h) {
		y.t.Errorf("SAFETY: fence %d after %d", h.Fence(), last)
	}
	if err := y.seen.Check(name, h.Fence()); err != nil && valid(h) {
		y.t.Error(err)
	}
	y.turns.Add(1)
	y.inside.CompareAndSwap(h, nil)
	return y.release(h, until)
}

// valid reports whether the holder may use the lock. It may not if it stood still until its time
// was over: a lock that was just handed over has half a second until it is claimed.
func valid(h *padlock.Lock) bool { return h.Remaining() > 0 }

// mostLate is how many holds may be lost because the machine stood still.
const mostLate = 5

// validUntil returns until when a hold that was just acquired is valid, if nothing extends it.
func validUntil(h *padlock.Lock) time.Time { return time.Now().Add(h.Remaining()) }

// release ends a hold, which may be lost only after the given time.
func (y *yard) release(h *padlock.Lock, until time.Time) bool {
	err := h.Release()
	switch {
	case err == nil:
		return true
	case errors.Is(err, padlock.ErrLost) && !time.Now().Before(until) && y.late.Add(1) <= mostLate:
		y.t.Logf("the machine stood still: %v", err)
		return true
	}
	y.t.Error(err)
	return false
}

// busy lets n goroutines of l take the lock repeatedly until stop is called. turns counts the
// holds.
func (y *yard) busy(l *padlock.Locker, n int, turns *atomic.Int64) (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for !over.Load() && y.once(l) {
				turns.Add(1)
			}
		})
	}
	return func() {
		over.Store(true)
		all.Wait()
	}
}

// Another process that waits gets its turn after n holds, including the first of the batch.
func TestOthersHaveTheirTurnAfterABatch(t *testing.T) {
	const batch, goroutines = 50, 120
	everyLayout(t, func(y *yard) {
		here, other := y.process(padlock.PassLocally(batch, time.Hour)), y.process()
		first, err := here.Acquire(y.ctx, name)
		if err != nil {
			y.t.Fatal(err)
		}
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() { y.once(here) })
		}
		y.until(func() bool { return here.Stats().Waiting == goroutines })
		all.Go(func() {
			h, err := other.Acquire(y.ctx, name)
			if err != nil {
				y.t.Error(err)
				return
			}
			until := validUntil(h)
			if n := y.turns.Load(); n != batch-1 && valid(h) {
				y.t.Errorf("the other process had its turn after %d holds, want the %d that follow the first", n, batch-1)
			}
			y.release(h, until)
		})
		y.until(func() bool {
			s, err := other.Inspect(y.ctx, name)
			return err == nil && s.Waiters == 1 // the other process; ours wait for the batch
		})
		if err := first.Release(); err != nil {
			y.t.Error(err)
		}
		all.Wait()
	})
}

// until polls until yes returns true.
func (y *yard) until(yes func() bool) {
	y.t.Helper()
	for !yes() {
		if y.ctx.Err() != nil {
			y.t.Fatal("waited too long")
		}
		<-time.After(time.Millisecond)
	}
}

// A batch of 100,000 holds ends when its time is over.
func TestOthersHaveTheirTurnInTime(t *testing.T) {
	everyLayout(t, func(y *yard) {
		here, other := y.process(padlock.PassLocally(100_000, 20*time.Millisecond)), y.process()
		var turns atomic.Int64
		stop := y.busy(here, 8, &turns)
		defer stop()
		for range 10 {
			if !y.once(other) {
				y.t.Fatal("no turn")
			}
		}
	})
}

// Four processes share a name. One has a single goroutine, one hands the lock over between its
// goroutines by one request, and two use PassLocally. All make progress.
func TestProcessesGetOn(t *testing.T) {
	everyLayout(t, func(y *yard) {
		var all [4]atomic.Int64
		for i, l := range []*padlock.Locker{
			y.process(), y.process(), y.process(padlock.PassLocally(20, 5*time.Millisecond)), y.process(padlock.PassLocally(5, time.Second)),
		} {
			defer y.busy(l, 1+3*i, &all[i])()
		}
		for i := range all {
			y.until(func() bool { return all[i].Load() >= 30 })
		}
	})
}

// The server remembers the end of a block of fences: after a release no client gets a fence of the
// block again.
func TestBlockIsRemembered(t *testing.T) {
	everyLayout(t, func(y *yard) {
		here, other := y.process(padlock.PassLocally(100_000, time.Hour)), y.process()
		first, err := here.Acquire(y.ctx, name)
		if err != nil {
			y.t.Fatal(err)
		}
		done := make(chan bool)
		go func() { done <- y.once(here) }()
		y.until(func() bool { return here.Stats().Waiting > 0 })
		if err := first.Release(); err != nil {
			y.t.Error(err)
		}
		if !<-done {
			y.t.Fatal("no turn")
		}
		h, err := other.Acquire(y.ctx, name)
		if err != nil {
			y.t.Fatal(err)
		}
		defer h.Release() // whether it is still held does not matter
		if block := first.Fence() + 99_999; h.Fence() <= block {
			y.t.Errorf("a block up to %d, and then fence %d", block, h.Fence())
		}
	})
}
