//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// plan says how much is measured.
type plan struct {
	trial   time.Duration // for uncontended
	queued  time.Duration // how long waiters wait before a drain begins
	steady  time.Duration // for procs
	grace   time.Duration // how long after the end of a trial a worker may still wait before it counts as stranded
	blocked time.Duration
	quorum  time.Duration
	settle  time.Duration // how long blocked processes wait before they are measured

	goroutines int   // for uncontended
	waiters    int   // for drain
	processes  int   // for procs
	contenders []int // for quorum
	blockers   int

	holds   int
	ttl     time.Duration // of the holds to be renewed
	watched time.Duration // how long the renewals are measured
}

// bench is one run of the benchmark.
type bench struct {
	plan  plan
	rig   *rig
	three func() ([]string, error) // the addresses of three more servers, for quorum
}

// peers returns the rows of all tables: padlock, other libraries, and limits.
func peers(r *rig) []trial.Peer {
	return slices.Concat(padlocks(r), libraries(r), limits(r))
}

// rows returns a row for each peer that is in the tables in. Before each trial, the server is
// emptied.
func (b *bench) rows(in trial.Tables, f func(p *trial.Peer) (measure.Figures, error)) []measure.Row {
	return trial.Rows(peers(b.rig), in, func(p *trial.Peer) (measure.Figures, error) {
		if err := b.rig.clear(); err != nil {
			return nil, err
		}
		return f(p)
	})
}

var costColumns = []string{
	"cmds",      // commands sent by clients, per operation
	"client us", // CPU time per operation
	"server us",
}

// uncontended makes n goroutines of one process lock and unlock different names.
func (b *bench) uncontended(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("uncontended, %d goroutines", n),
		Columns: append([]string{"ops/s", "p50 us", "p99 us"}, costColumns...),
		Base:    limitAlone, Ratio: "ops/s",
		Rows: b.rows(alone, func(p *trial.Peer) (measure.Figures, error) { return p.Pairs(n, b.plan.trial, b.rig.meter) }),
	}
	share := func(row string, atLeast float64) {
		e.Targets = append(e.Targets, measure.Target{Row: row, Column: "ops/s", Base: limitAlone, AtLeast: atLeast})
	}
	if n == 64 {
		share(oursString, 0.7)
		share(ours, 0.6)
	}
	return e
}

var drainColumns = append([]string{
	"total_ms", // from the first release to the last acquire
	"hand p50 us", "violations",
}, costColumns...)

// drain makes n waiters wait for a held name. Then the holder releases the name, and each waiter
// takes it once.
func (b *bench) drain(n int, ownClients bool) *measure.Experiment {
	in, base, how, clients := oneDrain, limitHop, "one client for all", 1
	if ownClients {
		in, base, how, clients = eachDrain, limitQueue, "a client each", n
	}
	e := &measure.Experiment{
		Name: fmt.Sprintf("drain, %s, %d waiters", how, n), Columns: drainColumns, Base: base, Ratio: "total_ms",
		Rows: b.rows(in, func(p *trial.Peer) (measure.Figures, error) {
			return p.Drain(n, clients, b.plan.queued, b.rig.meter)
		}),
	}
	most := func(row, column, base string, atMost float64) {
		e.Targets = append(e.Targets, measure.Target{Row: row, Column: column, Base: base, AtMost: atMost})
	}
	for _, row := range []string{ours, oursString} {
		if ownClients && n == 64 {
			most(row, "total_ms", limitQueue, 2.2)
		}
		if ownClients {
			most(row, "cmds", "", 1.3)
			continue
		}
		most(row, "total_ms", limitHop, 2)
	}
	return e
}

var workColumns = append(slices.Clone(trial.CompeteColumns), costColumns...)

// procs makes n processes lock and unlock one name repeatedly.
func (b *bench) procs(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name:    fmt.Sprintf("procs, %d processes", n),
		Columns: workColumns, Base: limitQueue, Ratio: "hand-offs/s",
		Rows: b.rows(steadily, func(p *trial.Peer) (measure.Figures, error) {
			return p.Contest(b.rig.addr, n, b.plan.steady, b.plan.grace, b.rig.meter)
		}),
	}
	for _, row := range []string{ours, oursString} {
		e.Targets = append(e.Targets,
			measure.Target{Row: row, Column: "hand-offs/s", Base: limitQueue, AtLeast: 0.5},
			measure.Target{Row: row, Column: "Jain", AtLeast: 0.99})
	}
	return e
}
