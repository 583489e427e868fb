//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// renewals counts the statements that renew many holds of one process, with ExtendBatch and without
// it.
func (b *bench) renewals() *measure.Experiment {
	e := &measure.Experiment{
		Name: "renewals, PostgreSQL", Most: 1, // the figures are means over the time
		Columns: []string{"statements", "client us", "renewals"},
	}
	for _, n := range b.plan.renewed {
		for _, alone := range []bool{true, false} {
			name := fmt.Sprintf("%d holds, together", n)
			if alone {
				name = fmt.Sprintf("%d holds, one by one", n)
			} else {
				e.Targets = append(e.Targets, measure.Target{Row: name, Column: "statements", AtMost: 0.1})
			}
			e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) { return b.renew(n, alone) }})
		}
	}
	return e
}

// renew holds n names until most of them have been renewed twice. It returns the figures per
// renewal.
func (b *bench) renew(n int, alone bool) (f measure.Figures, err error) {
	p, err := b.process(sqlstore.PostgreSQL, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	locker := p.locker
	if alone {
		locker = padlock.New(struct{ driver.Store }{p.store}) // a store without ExtendBatch
		defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	}
	return trial.Renewals(locker, n, b.plan.lease, b.plan.lease*2/3, b.statements(sqlstore.PostgreSQL))
}
