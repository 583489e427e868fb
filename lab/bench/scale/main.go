//go:build linux

// Command scale measures how much one server and one process carry: the memory of a hold and of a
// free name, the cost of renewals, the effect of a restart, processes that wait, and hand-overs on
// one Redis and on a cluster of three. It starts the servers itself. Package bench describes the
// method; `make bench-scale` runs the command.
package main

import (
	"flag"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// One round is enough, because each figure is a mean over many holds or over several seconds.
var benchmark = measure.Bench[plan]{
	Name: "scale", Rounds: 1,
	Plan: plan{
		holds: 1_000_000, ttl: defaultTTL,
		processes: 100, waited: 10 * time.Second,
		lockers: 8, names: 48, trial: 5 * time.Second, patience: 5 * time.Minute,
	},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		return (&bench{plan: *p, progress: r.Progress}).experiments(), nil
	},
}

func main() {
	p := &benchmark.Plan
	flag.IntVar(&p.holds, "holds", p.holds, "holds on Redis; other servers have a tenth of them")
	flag.DurationVar(&p.ttl, "ttl", p.ttl, "length of the leases")
	benchmark.Main()
}
