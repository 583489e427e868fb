//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
)

const ours, noFence, peer = "padlock quorum", "padlock quorum, no fences", "redsync"

// ttl is the lease of the locks of both libraries.
const ttl = 30 * time.Second

// contended makes n clients lock and unlock one name repeatedly.
func (b *bench) contended(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name: fmt.Sprintf("three Redis servers, holds of %v, %d contenders", hold, n),
		Columns: []measure.Column{
			{Name: "locks/s", Format: "%.0f"}, {Name: "served", Format: "%.0f"}, {Name: "fewest", Format: "%.0f"},
			{Name: "longest wait ms", Format: "%.0f"}, {Name: "overlaps", Format: "%.0f"},
		},
		Base: peer, Ratio: "locks/s",
		Rows: []measure.Row{
			{Name: peer, Run: func() (measure.Figures, error) { return b.contend(n, b.openRedsync) }},
			{Name: ours, Run: func() (measure.Figures, error) { return b.contend(n, func() (client, error) { return b.openQuorum() }) }},
			{Name: noFence, Run: func() (measure.Figures, error) {
				return b.contend(n, func() (client, error) { return b.openQuorum(quorum.NoFences()) })
			}},
		},
		Targets: []measure.Target{
			{Row: ours, Column: "locks/s", Base: peer, AtLeast: 1},
			{Row: ours, Column: "served", AtLeast: float64(n)},
		},
	}
	if n < 8 {
		e.Targets[0].AtLeast = 0.8
	}
	return e
}

// A client locks a name, and returns the function that unlocks it.
type client struct {
	lock  func(ctx context.Context, name string) (unlock func() error, err error)
	close func() error
}

// contend opens n clients and lets them compete for the time of a trial.
func (b *bench) contend(n int, open func() (client, error)) (f measure.Figures, err error) {
	b.names++
	t := trial{name: fmt.Sprint("contended-", b.names), turns: make([]int, n)}
	for range n {
		c, bad := open()
		if bad != nil {
			return nil, bad
		}
		defer func() { err = errors.Join(err, c.close()) }()
		t.clients = append(t.clients, c)
	}
	return t.run(b.plan.trial)
}

type trial struct {
	name     string
	clients  []client
	turns    []int // of each client
	longest  atomic.Int64
	inside   atomic.Int32
	overlaps atomic.Int32
}

func (t *trial) run(d time.Duration) (measure.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	errs := make([]error, len(t.clients))
	var all sync.WaitGroup
	for i, c := range t.clients {
		all.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = t.turn(ctx, i, c)
			}
		})
	}
	all.Wait()
	locks, served, fewest := 0, 0, t.turns[0]
	for _, n := range t.turns {
		locks += n
		served += min(n, 1)
		fewest = min(fewest, n)
	}
	return measure.Figures{
		"locks/s": float64(locks) / d.Seconds(), "served": float64(served), "fewest": float64(fewest),
		"longest wait ms": float64(t.longest.Load()) / 1e6, "overlaps": float64(t.overlaps.Load()),
	}, errors.Join(errs...)
}

// turn takes the lock once. The end of ctx is no error.
func (t *trial) turn(ctx context.Context, i int, c client) error {
	began := time.Now()
	unlock, err := c.lock(ctx, t.name)
	waited := int64(time.Since(began))
	for longest := t.longest.Load(); waited > longest && !t.longest.CompareAndSwap(longest, waited); {
		longest = t.longest.Load()
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if t.inside.Add(1) > 1 {
		t.overlaps.Add(1)
	}
	keepFor(hold)
	t.inside.Add(-1)
	t.turns[i]++
	return unlock()
}

// keepFor sleeps in the kernel. A timer of Go may end up to 1 ms late if the process has received
// something meanwhile: the runtime then waits for whole milliseconds. A store that works in the
// background while a lock is held would seem to be slower than it is.
func keepFor(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}

// openQuorum opens a client of padlock, with its own connections.
func (b *bench) openQuorum(opts ...quorum.Option) (client, error) {
	var members []driver.Store
	for _, addr := range b.addrs {
		s, err := redisstore.Open(context.Background(), redisstore.Config{Addrs: []string{addr}})
		if err != nil {
			return client{}, err
		}
		members = append(members, s)
	}
	q, err := quorum.New(quorum.Majority, members, opts...)
	if err != nil {
		return client{}, err
	}
	l := padlock.New(q, padlock.TTL(ttl))
	return client{
		lock: func(ctx context.Context, name string) (func() error, error) {
			h, err := l.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			return func() error { return h.Release() }, nil
		},
		close: func() error { return l.Close(context.Background()) },
	}, nil
}

// openRedsync opens a client of redsync, with its own connections and the default delays between
// tries.
func (b *bench) openRedsync() (client, error) {
	var pools []redis.Pool
	var closers []func() error
	for _, addr := range b.addrs {
		c := goredis9.NewClient(&goredis9.Options{Addr: addr})
		pools, closers = append(pools, goredis.NewPool(c)), append(closers, c.Close)
	}
	rs := redsync.New(pools...)
	return client{
		lock: func(ctx context.Context, name string) (func() error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
			if err := m.LockContext(ctx); err != nil {
				return nil, err
			}
			return func() error { _, err := m.UnlockContext(context.Background()); return err }, nil
		},
		close: func() error {
			var err error
			for _, end := range closers {
				err = errors.Join(err, end())
			}
			return err
		},
	}, nil
}
