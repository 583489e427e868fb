package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// renewals holds n locks and measures the cost of their renewal, up to 2,048 in a request.
func (b *bench) renewals(n int, ttl, watched time.Duration) *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%d holds with a TTL of %v", n, ttl),
		Columns: []string{"renewals", "client us", "server us", "cmds"},
		Most:    1, // the figures are means over the time
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
	if err := b.rig.clear(); err != nil {
		return nil, err
	}
	p := new(trial.Page) // counts the commands
	locker, err := site{b.rig.addr, &p.Sent[0]}.locker(opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	return trial.Renewals(locker, n, ttl, watched, b.rig.meter(p))
}
