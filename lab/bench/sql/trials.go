//go:build linux

package main

import (
	"fmt"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

const (
	bare = "two statements"
	ours = "sqlstore"
)

// drained is the row of the waiters of 16 processes, which all take a name once. Each process has
// its own pool, store and Locker, as a separate process would have; in fact all of them run in this
// program. On each connection, PostgreSQL plans a prepared statement anew for its first five
// executions, so several queues are emptied first.
const drained = "processes: 16"

func (b *bench) drained() (measure.Figures, error) {
	p := trial.Peer{Drains: 16, Open: b.process}
	return p.Drain(b.plan.waiters, 16, b.plan.queued, func(*trial.Page) trial.Meter { return b.statements })
}

// statements is a meter of the statements that PostgreSQL has run for locks.
func (b *bench) statements() (func(measure.Figures, int) error, error) {
	before, err := b.calls()
	return func(f measure.Figures, n int) error {
		after, err := b.calls()
		f["statements"] = (after - before) / float64(n)
		return err
	}, err
}

// drains measures how fast a queue empties.
func (b *bench) drains() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, %d waiters", b.plan.waiters),
		Columns: []string{"total_ms", "hand p50 us", "statements"},
		Rows:    []measure.Row{{Name: drained, Run: b.drained}},
		Targets: []measure.Target{{Row: drained, Column: "statements", AtMost: 4}},
	}
	// Compare 16 processes of padlock with hand-overs without padlock, between 2 sessions and among
	// 16 sessions. At each hand-over, PostgreSQL wakes every session that listens. The comparison
	// with 2 sessions shows what it costs to wake the other sessions.
	for _, n := range []int{2, 16} {
		e.Rows = append(e.Rows, measure.Row{Name: hopRow(n), Run: func() (measure.Figures, error) { return b.hop(n) }})
		e.Targets = append(e.Targets, measure.Target{Row: drained, Column: "hand p50 us", Base: hopRow(n), AtMost: 1.5})
	}
	return e
}
