//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/memstore"
)

// permits makes two measurements: how long it takes to take and release one permit of a lock with
// four permits, and how long it takes to take and release three names at once. It compares both
// with one plain lock. All permits and names are free.
func permits(p *plan) *measure.Experiment {
	const one, slot, three = "one name", "one permit of 4", "three names"
	return &measure.Experiment{
		Name:    "memory, permits and several names",
		Columns: perOp,
		Rows: []measure.Row{
			{Name: one, Run: func() (measure.Figures, error) { return faceTrial(p.trial) }},
			{Name: slot, Run: func() (measure.Figures, error) { return faceTrial(p.trial, padlock.Slots(4)) }},
			{Name: three, Run: func() (measure.Figures, error) { return severalTrial(p.trial) }},
		},
		Base: one, Ratio: "ns/op",
		Targets: []measure.Target{
			{Row: slot, Column: "ns/op", Base: one, AtMost: 1.3},
			{Row: three, Column: "ns/op", Base: one, AtMost: 3.2},
		},
	}
}

func severalTrial(d time.Duration) (measure.Figures, error) {
	ctx, names := context.Background(), []string{"stock", "invoices", "nightly-report"}
	l := padlock.New(memstore.New())
	figures, err := loop(d, func() error {
		all, err := l.AcquireAll(ctx, names)
		if err != nil {
			return err
		}
		return all.Release()
	})
	return figures, errors.Join(err, l.Close(ctx))
}

// slotQueue lets 64 goroutines take one of four permits, each for 5 ms. The shortest possible time
// for all of them is 80 ms. But Go's timers fire late, so even the row with a channel takes longer.
// That row shows how much of the additional time comes from the timers.
func slotQueue(p *plan) *measure.Experiment {
	const peer, ours = "channel of 4 elements", "padlock over memstore"
	return &measure.Experiment{
		Name:    "memory, 64 waiters for 4 permits",
		Columns: []string{"total ms"},
		Rows: []measure.Row{
			{Name: peer, Run: func() (measure.Figures, error) {
				free := make(chan struct{}, 4)
				return sections(p.crowd(), func(work func()) error {
					free <- struct{}{}
					work()
					<-free
					return nil
				})
			}},
			{Name: ours, Run: func() (measure.Figures, error) {
				ctx, l := context.Background(), padlock.New(memstore.New(), padlock.Slots(4))
				figures, err := sections(p.crowd(), func(work func()) error {
					lock, err := l.Acquire(ctx, "gpu")
					if err != nil {
						return err
					}
					work()
					return lock.Release()
				})
				return figures, errors.Join(err, l.Close(ctx))
			}},
		},
		Base: peer, Ratio: "total ms",
		Targets: []measure.Target{{Row: ours, Column: "total ms", AtMost: 1.3 * 80}},
	}
}

// crowd returns the number of callers in slotQueue. A plan for tests has fewer of them.
func (p *plan) crowd() int { return min(64, p.waiters) }

// sections measures how long it takes until each caller has held a permit for 5 ms. The function
// withPermit takes a permit, calls its argument, and releases the permit.
func sections(callers int, withPermit func(work func()) error) (measure.Figures, error) {
	start := time.Now()
	err := trial.Together(callers, func(int) error { return withPermit(func() { time.Sleep(5 * time.Millisecond) }) })
	return measure.Figures{"total ms": measure.Millis(time.Since(start))}, err
}
