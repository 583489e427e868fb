//go:build linux

// Command sql measures locks in tables of PostgreSQL and SQLite, advisory locks of PostgreSQL and
// named locks of MariaDB. For comparison, it also measures the bare statements that any lock in a
// database needs. It starts the servers itself. Package bench describes the method; `make
// bench-sql` runs the command.
package main

import (
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/stores/sqlstore"
)

// plan says how much is measured.
type plan struct {
	trial   time.Duration // how long a trial of pairs takes
	waiters int           // waiters of a drain
	queued  time.Duration // how long waiters wait before the drain starts
}

var benchmark = measure.Bench[plan]{
	Name: "sql", Rounds: 5,
	Plan: plan{time.Second, 64, time.Second},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		b := &bench{plan: *p}
		if err := b.start(r); err != nil {
			return nil, err
		}
		return b.experiments(), nil
	},
}

func main() { benchmark.Main() }

func (b *bench) experiments() []*measure.Experiment {
	return []*measure.Experiment{
		b.tables(sqlstore.PostgreSQL), b.tables(sqlstore.SQLite), b.advisory(), b.namedLocks(), b.drains(),
	}
}
