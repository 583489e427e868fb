//go:build linux

package main

import (
	"context"
	"errors"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// permits makes two measurements: how long it takes to take and release one permit of a lock with
// four permits, and how long it takes to take and release three names at once. It compares both
// with one plain lock. All permits and names are free. There is only one caller, so the figures
// show how long requests take.
func (b *bench) permits() *measure.Experiment {
	const one, slot, three = "one name", "one permit of 4", "three names"
	e := &measure.Experiment{
		Name:    "permits and several names",
		Columns: []string{"us/op", "cmds", "server us"},
		Base:    one, Ratio: "us/op",
		Targets: []measure.Target{
			{Row: slot, Column: "us/op", Base: one, AtMost: 1.3},
			{Row: three, Column: "us/op", Base: one, AtMost: 3.2},
		},
	}
	row := func(name string, once func(l *padlock.Locker, name string) error) {
		e.Rows = append(e.Rows, measure.Row{Name: name, Run: func() (measure.Figures, error) {
			return b.repeated(func(l *padlock.Locker) error { return once(l, "bench:permits") })
		}})
	}
	single := func(opts ...padlock.Option) func(l *padlock.Locker, name string) error {
		return func(l *padlock.Locker, name string) error {
			lock, err := l.Acquire(context.Background(), name, opts...)
			if err != nil {
				return err
			}
			return lock.Release()
		}
	}
	row(one, single())
	row(slot, single(padlock.Slots(4)))
	row(three, func(l *padlock.Locker, name string) error {
		all, err := l.AcquireAll(context.Background(), []string{name + ":a", name + ":b", name + ":c"})
		if err != nil {
			return err
		}
		return all.Release()
	})
	return e
}

// repeated calls its argument many times in a row, for the length of a trial, and measures the
// calls.
func (b *bench) repeated(once func(l *padlock.Locker) error) (f measure.Figures, err error) {
	l, p, err := b.openLocker()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close(context.Background())) }()
	f, err = trial.Repeat(b.plan.trial, b.rig.meter(p), func() error { return once(l) })
	if err == nil {
		f["us/op"] = f["us"]
	}
	return f, err
}

// openLocker removes all data from the server and opens a Locker. It also returns the page in which
// the commands of this Locker are counted.
func (b *bench) openLocker(opts ...redisstore.Option) (*padlock.Locker, *trial.Page, error) {
	if err := b.rig.clear(); err != nil {
		return nil, nil, err
	}
	p := new(trial.Page)
	l, err := site{b.rig.addr, &p.Sent[0]}.locker(opts...)
	return l, p, err
}
