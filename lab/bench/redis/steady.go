//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// steady makes n goroutines of this process lock and unlock one name repeatedly. If ownClients is
// true, each goroutine has its own client. Otherwise all goroutines share one client.
func (b *bench) steady(n int, ownClients bool) *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("steady, one client for all, %d workers", n),
		Columns: workColumns, Base: limitQueue, Ratio: "hand-offs/s",
	}
	if ownClients {
		e.Name = fmt.Sprintf("steady, a client each, %d workers", n)
	}
	b.fill(e, steadily, func(c *contestant) (measure.Figures, error) { return b.steadyOnce(c, n, ownClients) })
	return e
}

func (b *bench) steadyOnce(c *contestant, n int, ownClients bool) (f measure.Figures, err error) {
	d := drainTrial{name: b.name("steady"), page: new(page)}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := c.ready(b.rig, d.name); err != nil {
		return nil, err
	}
	if err := d.open(b, c, n-1, ownClients); err != nil {
		return nil, err
	}
	before, err := b.rig.cost(d.page)
	if err != nil {
		return nil, err
	}
	d.page.span(now(), b.plan.steady, b.plan.grace)
	tallies := make([]tally, n)
	var all sync.WaitGroup
	for i, l := range d.lockers {
		all.Go(func() { tallies[i] = d.page.work(l, int32(i+1)) })
	}
	all.Wait()
	after, err := b.rig.cost(d.page)
	return conclude(d.page, tallies, b.plan.steady, before, after, err)
}

// conclude computes the figures of a trial.
func conclude(p *page, tallies []tally, d time.Duration, before, after cost, err error) (measure.Figures, error) {
	f, locks := p.summary(tallies, d), 0
	for _, t := range tallies {
		locks += t.Locks
		if t.Err != "" {
			err = errors.Join(err, errors.New(t.Err))
		}
	}
	addCosts(f, before, after, locks)
	return f, err
}
