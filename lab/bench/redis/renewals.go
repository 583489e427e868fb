package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// renewals holds n locks and measures the cost of their renewal. The measurement must be long
// enough for several renewals of each lock. A shorter one would see too few requests, because one
// request renews up to 2,048 locks.
func (b *bench) renewals(n int, ttl, watched time.Duration) *measure.Experiment {
	e := &measure.Experiment{
		Name: fmt.Sprintf("%d holds with a TTL of %v", n, ttl),
		Columns: []measure.Column{
			{Name: "renewals", Format: "%.0f"}, {Name: "client us", Format: "%.1f"}, {Name: "server us", Format: "%.1f"},
			{Name: "cmds", Format: "%.2f"}, {Name: "calls", Format: "%.2f"},
		},
	}
	b.fill(e, renewing, func(c *contestant) (measure.Figures, error) { return b.renew(c, n, ttl, watched) })
	for _, r := range e.Rows {
		e.Targets = append(e.Targets, measure.Target{Row: r.Name, Column: "client us", AtMost: 3},
			measure.Target{Row: r.Name, Column: "cmds", AtMost: 0.1})
	}
	return e
}

func (b *bench) renew(c *contestant, n int, ttl, watched time.Duration) (f measure.Figures, err error) {
	p := new(page)
	cl, err := c.open(site{b.rig.addr, &p.sent[0]})
	if err != nil {
		return nil, err
	}
	locker := cl.(face).Locker
	defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	if err := holdMany(locker, n, ttl); err != nil {
		return nil, err
	}
	before, err := b.rig.cost(p)
	from := locker.Stats()
	if err != nil {
		return nil, err
	}
	time.Sleep(watched)
	after, err := b.rig.cost(p)
	to := locker.Stats()
	if to.Lost > 0 || to.Held != n {
		err = errors.Join(err, fmt.Errorf("of %d holds %d are left: %+v", n, to.Held, to))
	}
	renewed := int(to.Renewals - from.Renewals)
	f = measure.Figures{"renewals": float64(renewed)}
	addCosts(f, before, after, renewed)
	return f, err
}

// holdMany takes n locks. The calls are spread evenly over the time until the first renewal, so
// that the renewals are spread too.
func holdMany(l *padlock.Locker, n int, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), ttl+patience)
	defer cancel()
	start, cycle := time.Now(), ttl/3
	for i := range n {
		time.Sleep(time.Until(start.Add(cycle * time.Duration(i) / time.Duration(n))))
		if _, err := l.Acquire(ctx, fmt.Sprint("bench:hold:", i), padlock.TTL(ttl)); err != nil {
			return err
		}
	}
	return nil
}
