package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// renewals holds n locks and measures the cost of their renewal. The measurement must be long
// enough for several renewals of each lock. A shorter one would see too few requests, because one
// request renews up to 2,048 locks.
func (b *bench) renewals(n int, ttl, watched time.Duration) *measure.Experiment {
	e := &measure.Experiment{
		Name: fmt.Sprintf("%d holds with a TTL of %v", n, ttl),
		Columns: []string{
			"renewals", "client us", "server us",
			"cmds", "calls",
		},
		Most: 1, // the figures are means over the time
	}
	for name, opts := range map[string][]redisstore.Option{ours: nil, oursString: {redisstore.PlainStrings()}} {
		r := measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.renew(opts, n, ttl, watched) }}
		e.Rows = append(e.Rows, r)
		e.Targets = append(e.Targets, measure.Target{Row: r.Name, Column: "client us", AtMost: 3},
			measure.Target{Row: r.Name, Column: "cmds", AtMost: 0.1})
	}
	return e
}

func (b *bench) renew(opts []redisstore.Option, n int, ttl, watched time.Duration) (f measure.Figures, err error) {
	locker, p, err := b.openLocker(opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	if err := holdMany(locker, n, ttl); err != nil {
		return nil, err
	}
	end, err := b.rig.meter(p)()
	from := locker.Stats()
	if err != nil {
		return nil, err
	}
	time.Sleep(watched)
	to := locker.Stats()
	renewed := int(to.Renewals - from.Renewals)
	f = measure.Figures{"renewals": float64(renewed)}
	err = end(f, renewed)
	if to.Lost > 0 || to.Held != n {
		err = errors.Join(err, fmt.Errorf("of %d holds %d are left: %+v", n, to.Held, to))
	}
	return f, err
}

// holdMany takes n locks. The calls are spread evenly over the time until the first renewal, so
// that the renewals are spread too.
func holdMany(l *padlock.Locker, n int, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), ttl+trial.Patience)
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
