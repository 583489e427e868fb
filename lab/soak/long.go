package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// longName is the name that one goroutine of each process waits for, most of the time.
func longName(prefix string) string { return prefix + "long" }

// longWait is longer than the holds of all other processes together.
const longWait = 10 * time.Second

// waitLong takes one name after long waits until ctx ends. Meanwhile other goroutines of the
// process give up many short waits. A store may keep something for all waiters of a process
// together, such as a lease for their places in the queues. It then never ends.
func (w *worker) waitLong(ctx context.Context) {
	for ctx.Err() == nil {
		t := turn{name: longName(w.dice.load.Prefix), ttl: w.dice.draw().ttl, wait: longWait, hold: w.dice.between(50*time.Millisecond, 400*time.Millisecond)}
		if h := w.take(ctx, t); h != nil {
			pause(ctx, h.hold)
			w.release(h)
		}
	}
}

// restName is the name that every process waits for while it rests. Before that, it waits for the
// busyNames many times, and gives up each time. The engine holds all of them.
func restName(prefix string) string { return prefix + "rest" }

func busyNames(prefix string) (names []string) {
	for i := range 8 {
		names = append(names, fmt.Sprintf("%sbusy:%d", prefix, i))
	}
	return names
}

const (
	// restPatience is how long a process waits until all others rest and the engine has looked at
	// all names.
	restPatience = 2 * time.Minute
	// burst is how long a process gives up short waits before it rests.
	burst = time.Second
)

// rest gives up many short waits while one goroutine waits for long, and then only waits for long.
// Nothing else goes on in the process.
func (o *order) rest(ctx context.Context, monitor monitorAPI, l *padlock.Locker) {
	if !monitor.Resting() {
		return
	}
	var all sync.WaitGroup
	all.Go(func() {
		lock, err := l.Acquire(ctx, restName(o.Load.Prefix), padlock.Wait(restPatience))
		if err == nil {
			lock.Release() // nothingLeft finds out whether the release worked
		}
	})
	var short sync.WaitGroup
	end := clockNow() + int64(burst)
	for g := range o.Goroutines {
		dice := rand.New(rand.NewPCG(o.Seed, uint64(o.Worker)<<32|uint64(g)))
		short.Go(func() {
			for names := busyNames(o.Load.Prefix); clockNow() < end && ctx.Err() == nil; {
				giveUp(ctx, l, names[dice.IntN(len(names))], time.Duration(dice.Int64N(int64(maxShort))), dice.IntN(2) == 0)
			}
		})
	}
	short.Wait()
	monitor.Log(Event{Op: Resting, Worker: o.Worker, Life: o.Life, At: clockNow()})
	all.Wait()
}

// giveUp waits for a name for a short time. If cancel is true, the context ends the wait, even in
// the middle of a request.
func giveUp(ctx context.Context, l *padlock.Locker, name string, d time.Duration, cancel bool) {
	wait := padlock.Wait(d)
	if cancel {
		short, stop := context.WithTimeout(ctx, d)
		defer stop()
		ctx, wait = short, padlock.Wait(restPatience)
	}
	lock, err := l.Acquire(ctx, name, wait)
	if err == nil {
		lock.Release() // the engine's lock was lost; if this release fails, nothingLeft finds out
	}
}
