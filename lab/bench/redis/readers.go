//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// readers lets n readers of one process wait while a writer of another process holds the name. Then
// the writer releases the name. The column total_ms shows the time from the release until all
// readers have the name together.
//
// The other libraries have no shared locks to compare with. So the base of the comparison is a row
// without locks: n small writes, one for each reader, are sent at the same time on one connection.
func (b *bench) readers(n int) *measure.Experiment {
	const limit = "limit-rueidis-1conn, a ZADD for each"
	return &measure.Experiment{
		Name: fmt.Sprintf("%d readers of one process", n),
		Columns: []measure.Column{
			{Name: "total_ms", Format: "%.1f"}, {Name: "cmds", Format: "%.3f"}, {Name: "calls", Format: "%.1f"}, {Name: "client us", Format: "%.1f"}, {Name: "server us", Format: "%.1f"},
		},
		Base: limit, Ratio: "total_ms",
		Rows: []measure.Row{
			{Name: ours, Run: func() (measure.Figures, error) { return b.readTogether(n) }},
			{Name: limit, Run: func() (measure.Figures, error) { return b.writeTogether(n) }},
		},
	}
}

func (b *bench) readTogether(n int) (f measure.Figures, err error) {
	writer, _, err := b.openLocker()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, writer.Close(context.Background())) }()
	locker, p, err := b.openLocker()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	ctx, cancel := context.WithTimeout(context.Background(), trial.Patience)
	defer cancel()
	const name = "bench:readers"
	held, err := writer.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	g := newGroup(n, func() (func() error, error) {
		lock, err := locker.Acquire(ctx, name, padlock.Shared())
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release() }, nil
	})
	time.Sleep(b.plan.queued)
	return b.measureGroup(p, g, n, func() error { return held.Release() })
}

// writeTogether makes a trial without locks. All n goroutines send one small write each, at the
// same time.
func (b *bench) writeTogether(n int) (f measure.Figures, err error) {
	if err := b.rig.clear(); err != nil {
		return nil, err
	}
	p := new(trial.Page)
	c, err := site{b.rig.addr, &p.Sent[0]}.oneConnection()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	start := make(chan struct{})
	ctx := context.Background()
	var last atomic.Int64
	g := newGroup(n, func() (func() error, error) {
		member := fmt.Sprint("reader-", last.Add(1))
		<-start
		remove := func() error { return c.Do(ctx, c.B().Zrem().Key("bench:readers").Member(member).Build()).Error() }
		return remove, c.Do(ctx, c.B().Zadd().Key("bench:readers").ScoreMember().ScoreMember(1, member).Build()).Error()
	})
	time.Sleep(b.plan.queued)
	return b.measureGroup(p, g, n, func() error { close(start); return nil })
}

// measureGroup calls begin, which lets the goroutines of a group enter. It measures the time until
// all of them have entered. Then it lets them leave.
func (b *bench) measureGroup(p *trial.Page, g *group, n int, begin func() error) (measure.Figures, error) {
	end, err := b.rig.meter(p)()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	err = begin()
	g.inside.Wait()
	took := time.Since(start)
	f := measure.Figures{"total_ms": measure.Millis(took)}
	bad := end(f, n)
	close(g.leave)
	g.gone.Wait()
	return f, errors.Join(err, bad, g.err)
}

// A group is a number of goroutines that enter one by one and leave together.
type group struct {
	inside, gone sync.WaitGroup
	leave        chan struct{}
	mu           sync.Mutex
	err          error // one of the errors
}

// newGroup starts n goroutines. Each goroutine calls enter, and then waits until measureGroup lets
// the group leave. Then it calls the function that enter has returned.
func newGroup(n int, enter func() (leave func() error, err error)) *group {
	g := &group{leave: make(chan struct{})}
	g.inside.Add(n)
	for range n {
		g.gone.Go(func() {
			leave, err := enter()
			g.inside.Done()
			if err == nil {
				<-g.leave
				err = leave()
			}
			if err != nil {
				g.mu.Lock()
				g.err = err
				g.mu.Unlock()
			}
		})
	}
	return g
}
