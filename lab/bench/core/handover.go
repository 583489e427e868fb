//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/memstore"
)

// handOver makes many goroutines wait for one name. Then each takes it once. Only the time from the
// first release to the last counts.
func handOver(p *plan) *measure.Experiment {
	const peer, ours = "unbuffered channel", "padlock over memstore"
	row := func(name string, drain func(waiters int) (time.Duration, error)) measure.Row {
		return measure.Row{Name: name, Run: func() (measure.Figures, error) {
			var total time.Duration
			for range p.drains {
				took, err := drain(p.waiters)
				if err != nil {
					return nil, err
				}
				total += took
			}
			return measure.Figures{"ns/hand-over": float64(total.Nanoseconds()) / float64(p.drains*p.waiters)}, nil
		}}
	}
	return &measure.Experiment{
		Name:    fmt.Sprintf("memory, %d waiting goroutines", p.waiters),
		Columns: []string{"ns/hand-over"},
		Rows:    []measure.Row{row(peer, drainChannel), row(ours, drainFace)},
		Base:    peer, Ratio: "ns/hand-over",
		Targets: []measure.Target{{Row: ours, Column: "ns/hand-over", Base: peer, AtMost: 4}},
	}
}

// drainChannel passes a turn to goroutines that wait for it at one channel. The goroutines get the
// turn in the order in which they came, and the caller gets it last.
func drainChannel(waiters int) (time.Duration, error) {
	turn := make(chan struct{})
	var asked atomic.Int64
	for range waiters {
		go func() {
			asked.Add(1)
			<-turn
			turn <- struct{}{}
		}()
	}
	for asked.Load() < int64(waiters) {
		runtime.Gosched()
	}
	awaitSleep()
	start := time.Now()
	turn <- struct{}{}
	<-turn
	return time.Since(start), nil
}

// awaitSleep waits until all goroutines that have announced their wait are asleep. It also collects
// the garbage of the preparations, which must not count as part of a hand-over.
func awaitSleep() {
	time.Sleep(2 * time.Millisecond)
	runtime.GC()
}

// drainFace is like drainChannel, but the goroutines wait for a lock of package padlock.
func drainFace(waiters int) (time.Duration, error) {
	l := padlock.New(memstore.New(), padlock.MaxWaiters(waiters))
	ctx := context.Background()
	c, err := startCrowd(l, waiters)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = c.drain()
	took := time.Since(start)
	return took, errors.Join(err, l.Close(ctx))
}

// crowd is a group of goroutines that wait for one name.
type crowd struct {
	first *padlock.Lock // the lock for which the crowd waits
	left  sync.WaitGroup
	err   atomic.Pointer[error]
}

// startCrowd starts a crowd and returns when all of its goroutines are waiting.
func startCrowd(l *padlock.Locker, waiters int) (*crowd, error) {
	ctx := context.Background()
	first, err := l.Acquire(ctx, "nightly-report")
	if err != nil {
		return nil, err
	}
	c := &crowd{first: first}
	for range waiters {
		c.left.Go(func() {
			h, err := l.Acquire(ctx, "nightly-report")
			if err == nil {
				err = h.Release()
			}
			if err != nil {
				c.err.Store(&err)
			}
		})
	}
	for l.Stats().Waiting < waiters && c.err.Load() == nil {
		runtime.Gosched()
	}
	awaitSleep()
	return c, nil
}

// drain lets each goroutine take the lock once.
func (c *crowd) drain() error {
	err := c.first.Release()
	c.left.Wait()
	if failed := c.err.Load(); failed != nil {
		err = errors.Join(err, *failed)
	}
	return err
}
