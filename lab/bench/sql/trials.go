//go:build linux

package main

import (
	"fmt"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

const (
	bare = "two statements"
	ours = "sqlstore"
)

// drained is a row for waiters of some processes, which all take a name once. Each process has its
// own pool, store and Locker, as a separate process would have; in fact all of them run in this
// program. On each connection, PostgreSQL plans a prepared statement anew for its first five
// executions, so several queues are emptied first.
func (b *bench) drained(e sqlstore.Engine, processes int) measure.Row {
	p := trial.Peer{Name: fmt.Sprintf("processes: %d", processes), Drains: 16, Open: func(*trial.Counter) (*trial.Client, error) {
		process, err := b.process(e, e == sqlstore.PostgreSQL)
		if err != nil {
			return nil, err
		}
		return process.client(), nil
	}}
	return measure.Row{Name: p.Name, Run: func() (measure.Figures, error) {
		return p.Drain(b.plan.waiters, processes, b.plan.queued, func(*trial.Page) trial.Meter { return b.statements(e) })
	}}
}

// statements is a meter of the statements that PostgreSQL has run for locks.
func (b *bench) statements(e sqlstore.Engine) trial.Meter {
	if e != sqlstore.PostgreSQL {
		return nil
	}
	return func() (func(measure.Figures, int) error, error) {
		before, err := b.calls()
		return func(f measure.Figures, n int) error {
			after, err := b.calls()
			f["statements"] = (after - before) / float64(n)
			return err
		}, err
	}
}

// drains measures how fast a queue empties, in one process and in 16 of them.
func (b *bench) drains() *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("drain, %d waiters", b.plan.waiters),
		Columns: []string{"total_ms", "hand p50 us", "statements"},
	}
	for _, n := range []int{1, 16} {
		row := b.drained(sqlstore.PostgreSQL, n)
		e.Rows = append(e.Rows, row)
		e.Targets = append(e.Targets, measure.Target{Row: row.Name, Column: "statements", AtMost: 4})
	}
	// Compare 16 processes of padlock with hand-overs without padlock, between 2 sessions and among
	// 16 sessions. At each hand-over, PostgreSQL wakes every session that listens. The comparison
	// with 2 sessions shows what it costs to wake the other sessions.
	for _, n := range []int{2, 16} {
		e.Rows = append(e.Rows, measure.Row{Name: hopRow(n), Run: func() (measure.Figures, error) { return b.hop(n) }})
		e.Targets = append(e.Targets, measure.Target{Row: "processes: 16", Column: "hand p50 us", Base: hopRow(n), AtMost: 1.5})
	}
	return e
}

// drainsOfFiles does the same in SQLite, where waiters poll.
func (b *bench) drainsOfFiles() *measure.Experiment {
	return &measure.Experiment{
		Name:    fmt.Sprintf("drain, SQLite, %d waiters", b.plan.waiters),
		Columns: []string{"total_ms", "hand p50 us"},
		Rows:    []measure.Row{b.drained(sqlstore.SQLite, 1), b.drained(sqlstore.SQLite, 16)},
	}
}
