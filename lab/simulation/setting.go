package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// Setting is what all scenarios have in common.
type Setting struct {
	Processes int
	Queue     bool          // the server keeps a queue; otherwise the processes poll
	Patience  time.Duration // how long the server may be down before a wait in the queue fails
	Network   Network
	Outage    Outage
}

// Outage is a time in which the server is down.
type Outage struct {
	At       time.Duration // since the beginning of the scenario; 0 means that there is no outage
	For      time.Duration
	LoseData bool
	Silent   bool // the server gives no answer at all, as if its machine were gone
}

// lease is the TTL of all locks. A server that lost its data gives no locks for that long.
const lease = 10 * time.Second

// afterFailure is how long a program waits, on average, after a failed call before it calls again.
const afterFailure = time.Second

// process is one process of a scenario.
type process struct {
	*referee
	ctx    context.Context // ends with the scenario
	number int
	random *rand.Rand
	locker *padlock.Locker

	running sync.WaitGroup // for a process with several goroutines
}

// run starts the processes at random instants within the time startWithin. Each process calls work
// again and again until ctx ends. Then it calls end.
func (s Setting) run(ctx context.Context, f *referee, startWithin time.Duration, work, end func(*process)) Result {
	server := NewServer(s.Network, lease)
	f.sent, f.outage = server.requestCount, s.Outage.At > 0
	var running sync.WaitGroup
	running.Go(func() {
		<-ctx.Done()
		f.ended()
	})
	for i := range s.Processes {
		running.Go(func() {
			p := &process{
				referee: f, ctx: ctx, number: i, random: rand.New(rand.NewPCG(1, uint64(i))),
				locker: padlock.New(server.Connect(s.Queue, s.Patience), padlock.TTL(lease)),
			}
			defer p.locker.Close(context.Background())
			pause(ctx, time.Duration(p.random.Int64N(int64(startWithin)+1)))
			for ctx.Err() == nil {
				work(p)
			}
			end(p)
		})
	}
	s.Outage.run(ctx, server, f)
	running.Wait()
	f.result.countBySecond(server.slots, s.Outage)
	return f.result
}

// run carries out the outage: it stops the server, and later starts it again.
func (o Outage) run(ctx context.Context, server *Server, f *referee) {
	if o.At == 0 {
		return
	}
	pause(ctx, o.At)
	if ctx.Err() != nil {
		return
	}
	server.Stop(o.Silent)
	pause(ctx, o.For)
	server.Start(o.LoseData)
	f.serverReturned()
}

// take acquires name. If that fails, the process waits as a program would, and the result is nil.
func (p *process) take(name string, opts ...padlock.Option) *padlock.Lock {
	called := time.Now()
	lock, err := p.locker.Acquire(p.ctx, name, opts...)
	switch {
	case err == nil:
		p.acquired(p.number, name, lock.Fence(), called)
		context.AfterFunc(lock.Context(), func() { p.stoppedUsing(name) })
		return lock
	case p.ctx.Err() != nil:
	case errors.Is(err, padlock.ErrHeld):
		p.count(&p.result.Refusals)
	default:
		p.count(&p.result.Failed)
		pause(p.ctx, p.spread(afterFailure))
	}
	return nil
}

// giveBack releases lock. If the server cannot be reached, the Locker goes on with the release.
func (p *process) giveBack(lock *padlock.Lock) {
	if err := lock.Release(); errors.Is(err, padlock.ErrLost) || errors.Is(err, padlock.ErrExpired) {
		p.count(&p.result.Lost)
	}
}

// spread returns a random time between 0.5 and 1.5 times d.
func (p *process) spread(d time.Duration) time.Duration {
	return d/2 + time.Duration(p.random.Int64N(int64(d)))
}
