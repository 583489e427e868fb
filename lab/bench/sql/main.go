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
	many    int           // number of processes that wait
	section time.Duration // how long each of the many processes holds the lock
	watched time.Duration
	holds   int           // advisory locks that are held at once
	renewed []int         // numbers of leases that one process renews
	lease   time.Duration // the TTL of these leases
}

var benchmark = measure.Bench[plan]{
	Name: "sql", Rounds: 5, QuickRounds: 1,
	Full:  plan{time.Second, 64, time.Second, 50, 2 * time.Second, 30 * time.Second, 1000, []int{1000, 10000}, 30 * time.Second},
	Quick: plan{300 * time.Millisecond, 16, 500 * time.Millisecond, 10, 500 * time.Millisecond, 3 * time.Second, 100, []int{1000}, 6 * time.Second},
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
		b.tables(sqlstore.PostgreSQL), b.tables(sqlstore.SQLite), b.advisory(), b.manyHolds(), b.namedLocks(),
		b.drains(), b.waiting(), b.waitingForFiles(), b.drainsOfFiles(), b.renewals(),
	}
}
