//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// crowdTrials is how often a crowd takes its lock in a trial. The figure is the median.
const crowdTrials = 7

// crowds measures many goroutines of one process that want the same name.
func (b *bench) crowds() *measure.Experiment {
	row := func(name string, open func() (func(name string) error, func(), error)) measure.Row {
		return measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.crowd(open) }}
	}
	return &measure.Experiment{
		Name:    fmt.Sprintf("crowd, ZooKeeper, %d goroutines of one process", b.plan.waiters),
		Columns: []measure.Column{{Name: "total_ms", Format: "%.1f"}, {Name: "packets", Format: "%.2f"}},
		Rows:    []measure.Row{row(peer, b.crowdPeer), row(noFence, b.crowdOurs(zkstore.NoFences())), row(ours, b.crowdOurs())},
		Base:    peer, Ratio: "total_ms",
		Targets: []measure.Target{{Row: ours, Column: "total_ms", Base: peer, AtMost: 1}},
	}
}

// crowd measures how long it takes until every goroutine has had the same lock once. All goroutines
// begin at the same time. open returns the function that takes and releases a name.
func (b *bench) crowd(open func() (pair func(name string) error, end func(), err error)) (measure.Figures, error) {
	pair, end, err := open()
	if err != nil {
		return nil, err
	}
	defer end()
	var took, packets []float64
	for range crowdTrials + 1 {
		b.runs++
		name := fmt.Sprint("crowd", b.runs)
		if err := pair(name); err != nil { // makes the node of the name
			return nil, err
		}
		errs := make([]error, b.plan.waiters)
		before, begin := b.packets(), make(chan struct{})
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				<-begin
				errs[i] = pair(name)
			})
		}
		began := time.Now()
		close(begin)
		wg.Wait()
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		packets = append(packets, float64(b.packets()-before)/float64(len(errs)))
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return measure.Figures{"total_ms": measure.Median(took[1:]), "packets": measure.Median(packets[1:])}, nil
}

func (b *bench) crowdPeer() (func(name string) error, func(), error) {
	c, err := b.peer()
	return c.pair, c.close, err
}

func (b *bench) crowdOurs(opts ...zkstore.Option) func() (func(name string) error, func(), error) {
	return func() (func(name string) error, func(), error) {
		s, err := b.open(opts...)
		if err != nil {
			return nil, nil, err
		}
		locker := padlock.New(s)
		pair := func(name string) error {
			l, err := locker.Acquire(context.Background(), name)
			if err != nil {
				return err
			}
			return l.Release()
		}
		return pair, func() { locker.Close(context.Background()) }, nil
	}
}
