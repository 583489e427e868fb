//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// bench is one run of the benchmark.
type bench struct {
	plan  plan
	redis string
	keys  int
}

// padlocks contains the names of the rows for package stampede. Only these rows have targets.
var padlocks = []string{"padlock", stalePadlock}

func (b *bench) experiments() []*measure.Experiment {
	return []*measure.Experiment{b.cold(), b.steady(), b.killed(), b.slower(), b.failing()}
}

// key returns a key that no earlier trial has used.
func (b *bench) key() string {
	b.keys++
	return fmt.Sprint("bench:", b.keys)
}

// fill adds a row for each contestant. To measure a row, fill starts the contestant's processes and
// passes them to the function trial.
func (b *bench) fill(e *measure.Experiment, targets []measure.Target, trial func(f fleet) (measure.Figures, error)) *measure.Experiment {
	for _, c := range contestants {
		e.Rows = append(e.Rows, measure.Row{Name: c.name, Run: func() (figures measure.Figures, err error) {
			f, err := startFleet(c.name, b.redis, b.plan.processes)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, f.end()) }()
			return trial(f)
		}})
		if slices.Contains(padlocks, c.name) {
			for _, t := range targets {
				t.Row = c.name
				e.Targets = append(e.Targets, t)
			}
		}
	}
	return e
}

// columns of all tables
var columns = []string{
	"runs", "at once", "values", "errors",
	"p50 ms", "p99 ms", "slowest ms",
}

func (t *tally) figures() measure.Figures {
	times := measure.Times(t.Took)
	return measure.Figures{
		"runs": float64(t.Runs), "at once": float64(t.Peak), "values": float64(len(t.Values)), "errors": float64(t.Errors),
		"p50 ms": times.Micros(0.5) / 1000, "p99 ms": times.Micros(0.99) / 1000, "slowest ms": times.Micros(1) / 1000,
	}
}

// mustBeZero is the upper limit of a target for a count that must be zero.
const mustBeZero = 0.5

// cold makes all callers miss at the same time.
func (b *bench) cold() *measure.Experiment {
	p := b.plan
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%d callers in %d processes, absent key, %v to make", p.processes*p.callers, p.processes, p.takes),
		Columns: columns,
	}
	limit := 1.15*measure.Millis(p.takes) + 30
	targets := []measure.Target{{Column: "runs", AtMost: 1}, {Column: "slowest ms", AtMost: limit}}
	return b.fill(e, targets, func(f fleet) (measure.Figures, error) {
		t, err := f.sendAll(order{Key: b.key(), Calls: p.callers, Takes: p.takes, TTL: time.Minute})
		return t.figures(), err
	})
}

// steady makes calls all the time for a value that becomes stale soon.
func (b *bench) steady() *measure.Experiment {
	p := b.plan
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%d calls per second for %v, fresh for %v, %v to make", p.processes*p.rate, p.lasts, p.ttl, p.takes),
		Columns: append(slices.Clone(columns), "waited later"),
	}
	// The function must run again whenever the TTL of a value is over. So the least number of runs
	// follows from the length of a trial and the TTL. There may be one more run, depending on when
	// the trial ends.
	least := float64(p.lasts/(p.ttl+p.takes) + 1)
	targets := []measure.Target{{Column: "runs", AtLeast: least}, {Column: "runs", AtMost: least + 1}, {Column: "errors", AtMost: mustBeZero}}
	b.fill(e, targets, func(f fleet) (measure.Figures, error) {
		t, err := f.sendAll(order{Key: b.key(), Rate: p.rate, Lasts: p.lasts, Takes: p.takes, TTL: p.ttl})
		figures := t.figures()
		figures["waited later"] = float64(t.Late)
		return figures, err
	})
	e.Targets = append(e.Targets, measure.Target{Row: stalePadlock, Column: "waited later", AtMost: mustBeZero})
	return e
}

// killed kills the process that is making the value. It then measures calls in another process.
func (b *bench) killed() *measure.Experiment {
	p := b.plan
	e := &measure.Experiment{
		Name:    "the maker is killed with kill -9",
		Columns: []string{"next answer ms", "runs", "errors"},
	}
	targets := []measure.Target{{Column: "next answer ms", AtMost: 3000}, {Column: "runs", AtMost: 1}, {Column: "errors", AtMost: mustBeZero}}
	return b.fill(e, targets, func(f fleet) (measure.Figures, error) {
		key := b.key()
		if err := errors.Join(f[0].order(order{Key: key, Calls: 1, Takes: time.Hour, TTL: time.Minute}), f[0].begun()); err != nil {
			return nil, err
		}
		time.Sleep(p.killAfter)
		if err := errors.Join(f[0].kill(), b.forget(key)); err != nil {
			return nil, err
		}
		t, err := f[1:2].sendAll(order{Key: key, Calls: p.callers, Takes: time.Millisecond, TTL: time.Minute})
		figures := t.figures()
		figures["next answer ms"] = figures["p50 ms"]
		return figures, err
	})
}

// forget removes the runs of dead processes from the count.
func (b *bench) forget(key string) error {
	client := connect(b.redis)
	defer client.Close()
	return client.Del(context.Background(), runningKey(key)).Err()
}

// The method slower makes values with a function that takes longer than the lease and the TTL.
func (b *bench) slower() *measure.Experiment {
	p := b.plan
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%v to make, longer than the lease, fresh for %v", p.slow, p.ttl),
		Columns: columns,
	}
	targets := []measure.Target{{Column: "at once", AtMost: 1}, {Column: "errors", AtMost: mustBeZero}}
	return b.fill(e, targets, func(f fleet) (measure.Figures, error) {
		t, err := f.sendAll(order{Key: b.key(), Calls: p.callers, Takes: p.slow, TTL: p.ttl})
		return t.figures(), err
	})
}

// failing uses a function that always fails, like a database that times out. So all callers get an
// error. The experiment counts how often the function is called, and measures how long the callers
// wait.
func (b *bench) failing() *measure.Experiment {
	p := b.plan
	e := &measure.Experiment{
		Name:    fmt.Sprintf("%d callers in %d processes, fails after %v", p.processes*p.callers, p.processes, p.takes),
		Columns: columns,
	}
	all := float64(p.processes * p.callers)
	targets := []measure.Target{
		{Column: "runs", AtMost: 1}, {Column: "slowest ms", AtMost: 1.15*measure.Millis(p.takes) + 30}, {Column: "errors", AtLeast: all},
	}
	return b.fill(e, targets, func(f fleet) (measure.Figures, error) {
		t, err := f.sendAll(order{Key: b.key(), Calls: p.callers, Takes: p.takes, TTL: time.Minute, Fails: true})
		return t.figures(), err
	})
}
