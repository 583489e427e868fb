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
	steady  time.Duration // for steady and procs
	grace   time.Duration // how long after the end of a trial a worker may still wait before it counts as stranded
	blocked time.Duration
	settle  time.Duration // how long blocked processes wait before they are measured

	goroutines []int // for uncontended
	waiters    []int // for drain
	workers    []int // for steady
	processes  []int // for procs
	blockers   int
	readers    int // of one process

	holds   int
	ttls    []time.Duration // TTLs of the holds to be renewed
	watched time.Duration   // how long the renewals are measured
}

// bench is one run of the benchmark.
type bench struct {
	plan plan
	rig  *rig
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

var costColumns = []measure.Column{
	{Name: "cmds", Format: "%.2f"},      // commands sent by clients, per operation
	{Name: "calls", Format: "%.2f"},     // commands run by the server, including those in scripts
	{Name: "client us", Format: "%.1f"}, // CPU time per operation
	{Name: "server us", Format: "%.1f"},
}

// uncontended makes n goroutines of one process lock and unlock different names.
func (b *bench) uncontended(n int) *measure.Experiment {
	e := &measure.Experiment{
		Name: fmt.Sprintf("uncontended, %d goroutines", n),
		Columns: append([]measure.Column{
			{Name: "ops/s", Format: "%.0f"}, {Name: "p50 us", Format: "%.0f"}, {Name: "p99 us", Format: "%.0f"},
		}, costColumns...),
		Base: limitAlone, Ratio: "ops/s",
		Rows: b.rows(alone, func(p *trial.Peer) (measure.Figures, error) { return p.Pairs(n, b.plan.trial, b.rig.meter) }),
	}
	share := func(row string, atLeast float64) {
		e.Targets = append(e.Targets, measure.Target{Row: row, Column: "ops/s", Base: limitAlone, AtLeast: atLeast})
	}
	if n == 64 {
		share(oursStringNoFence+byDriver, 0.9)
		share(oursStringNoFence, 0.75)
		share(oursString+byDriver, 0.7)
		share(oursString, 0.7)
		share(ours+byDriver, 0.6)
		share(ours, 0.6)
	}
	return e
}

var drainColumns = append([]measure.Column{
	{Name: "total_ms", Format: "%.2f"}, // from the first release to the last acquire
	{Name: "hand p50 us", Format: "%.0f"}, {Name: "hand p99 us", Format: "%.0f"},
	{Name: "max/mean wait", Format: "%.2f"}, // 2 if waiters are served in order of arrival: the mean wait is then half of the longest wait
	{Name: "violations", Format: "%.0f"},
}, costColumns...)

// drain makes n waiters wait for a held name. Then the holder releases the name, and each waiter
// takes it once.
func (b *bench) drain(n int, ownClients bool) *measure.Experiment {
	in, base, how := oneDrain, limitHop, "one client for all"
	if ownClients {
		in, base, how = eachDrain, limitQueue, "a client each"
	}
	e := &measure.Experiment{
		Name: fmt.Sprintf("drain, %s, %d waiters", how, n), Columns: drainColumns, Base: base, Ratio: "total_ms",
		Rows: b.rows(in, func(p *trial.Peer) (measure.Figures, error) {
			return p.Drain(n, ownClients, b.plan.queued, b.rig.meter)
		}),
	}
	most := func(row, column, base string, atMost float64) {
		e.Targets = append(e.Targets, measure.Target{Row: row, Column: column, Base: base, AtMost: atMost})
	}
	for _, row := range []string{ours, oursString} {
		if ownClients && slices.Contains([]int{64, 256}, n) {
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

// steady makes n goroutines of this process lock and unlock one name repeatedly.
func (b *bench) steady(n int, ownClients bool) *measure.Experiment {
	how := "one client for all"
	if ownClients {
		how = "a client each"
	}
	return &measure.Experiment{
		Name: fmt.Sprintf("steady, %s, %d workers", how, n), Columns: workColumns, Base: limitQueue, Ratio: "hand-offs/s",
		Rows: b.rows(steadily, func(p *trial.Peer) (measure.Figures, error) {
			return p.Compete(n, ownClients, b.plan.steady, b.plan.grace, 0, b.rig.meter)
		}),
	}
}
