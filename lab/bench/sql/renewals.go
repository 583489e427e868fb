//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	if err := b.take(locker, n); err != nil {
		return nil, err
	}
	calls, err := b.calls()
	if err != nil {
		return nil, err
	}
	before, cpu := locker.Stats(), measure.Used().CPU
	time.Sleep(b.plan.lease * 2 / 3)
	after, cpuAfter := locker.Stats(), measure.Used().CPU
	callsAfter, err := b.calls()
	if err == nil && (after.Lost > 0 || after.RenewalErrors > 0) {
		err = fmt.Errorf("%d locks were lost, and %d renewals failed", after.Lost, after.RenewalErrors)
	}
	count := float64(after.Renewals - before.Renewals)
	return measure.Figures{
		"statements": (callsAfter - calls) / count,
		"client us":  float64((cpuAfter - cpu).Microseconds()) / count,
		"renewals":   count,
	}, err
}

// take acquires n names. Four goroutines share the work to save time.
func (b *bench) take(locker *padlock.Locker, n int) error {
	const callers = 4
	name := trial.NewName()
	return trial.Together(callers, func(g int) (err error) {
		for i := g; i < n && err == nil; i += callers {
			_, err = locker.TryAcquire(context.Background(), fmt.Sprint(name, ":", i), padlock.TTL(b.plan.lease))
		}
		return err
	})
}
