//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

var costColumns = []measure.Column{
	{Name: "cmds", Format: "%.2f"},      // commands sent by clients, per operation
	{Name: "calls", Format: "%.2f"},     // commands run by the server, including those in scripts
	{Name: "client us", Format: "%.1f"}, // CPU time per operation
	{Name: "server us", Format: "%.1f"},
}

// uncontended makes n goroutines of one process lock and unlock different names.
func (b *bench) uncontended(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name: fmt.Sprintf("uncontended, %d goroutines", n),
		Columns: append([]measure.Column{
			{Name: "ops/s", Format: "%.0f"}, {Name: "p50 us", Format: "%.0f"}, {Name: "p99 us", Format: "%.0f"},
		}, costColumns...),
		Base: limitAlone, Ratio: "ops/s",
		Targets: uncontendedTargets(n),
	}
	b.fill(e, alone, func(c *contestant) (measure.Figures, error) { return b.lockAlone(c, n) })
	return e
}

func (b *bench) lockAlone(c *contestant, n int) (f measure.Figures, err error) {
	p := new(page)
	names := make([]string, n)
	for i := range names {
		names[i] = b.name("alone")
	}
	if err := c.ready(b.rig, names...); err != nil {
		return nil, err
	}
	o, err := c.openFor(b.rig, site{b.rig.addr, &p.sent[0]}, b.name("warm"), names...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if _, _, err := loopAll(o.lockers, b.plan.warm); err != nil {
		return nil, err
	}
	before, err := b.rig.cost(p)
	if err != nil {
		return nil, err
	}
	times, took, err := loopAll(o.lockers, b.plan.trial)
	if err != nil {
		return nil, err
	}
	after, err := b.rig.cost(p)
	f = measure.Figures{
		"ops/s": float64(len(times)) / took.Seconds(), "p50 us": times.Micros(0.5), "p99 us": times.Micros(0.99),
	}
	addCosts(f, before, after, len(times))
	return f, err
}

// loopAll locks and unlocks with all lockers in parallel for about d. It returns how long each
// operation took.
func loopAll(lockers []Locker, d time.Duration) (measure.Times, time.Duration, error) {
	times := make([]measure.Times, len(lockers))
	errs := make([]error, len(lockers))
	ctx, cancel := context.WithTimeout(context.Background(), d+patience)
	defer cancel()
	begin := make(chan struct{})
	var start int64
	var all sync.WaitGroup
	for i, l := range lockers {
		times[i] = make(measure.Times, 0, 1<<12)
		all.Go(func() {
			<-begin
			times[i], errs[i] = loopOne(ctx, l, times[i], start+int64(d))
		})
	}
	start = now()
	close(begin)
	all.Wait()
	took := time.Duration(now() - start)
	var together measure.Times
	for _, t := range times {
		together = append(together, t...)
	}
	return together, took, errors.Join(errs...)
}

func loopOne(ctx context.Context, l Locker, times measure.Times, end int64) (measure.Times, error) {
	for last := now(); last < end; {
		unlock, err := l.Lock(ctx)
		if err == nil {
			err = unlock()
		}
		if err != nil {
			return times, err
		}
		done := now()
		times = append(times, done-last)
		last = done
	}
	return times, nil
}
