package handover

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/fence"
	"github.com/padlock-go/padlock/internal/safety"
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
func (y *yard) process() *padlock.Locker {
	y.t.Helper()
	s, err := redisstore.Open(y.ctx, redisstore.Config{Addrs: []string{y.addr}, Dial: server.PatientDial}, y.layout...)
	if err != nil {
		y.t.Fatal(err)
	}
	l := padlock.New(s)
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
	if y.inside.Swap(h) != nil {
		safety.TwoHold(y.t, "the lock has a holder already")
	}
	safety.Rises(y.t, h.Fence(), y.highest.Swap(h.Fence()))
	if err := y.seen.Check(name, h.Fence()); err != nil {
		safety.Broken(y.t, "%v", err)
	}
	y.inside.CompareAndSwap(h, nil)
	if err := h.Release(); err != nil { // its lease is 30 s, longer than the machine stands still
		y.t.Error(err)
		return false
	}
	return true
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

// Four processes share a name. One has a single goroutine, and the others hand the lock over
// between their goroutines by one request. All make progress.
func TestProcessesGetOn(t *testing.T) {
	everyLayout(t, func(y *yard) {
		var all [4]atomic.Int64
		for i := range all {
			defer y.busy(y.process(), 1+3*i, &all[i])()
		}
		for i := range all {
			y.until(func() bool { return all[i].Load() >= 30 })
		}
	})
}
