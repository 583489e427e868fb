//go:build linux

// Command redis measures locks in Redis: padlock's, those of other libraries, and the best that the
// server and the machine can do. It starts its own Redis. Package bench describes the method; `make
// bench-redis` runs the command.
package main

import (
	"flag"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

var full = plan{
	rounds: 5, warm: 100 * time.Millisecond, trial: 500 * time.Millisecond, queued: 120 * time.Millisecond, steady: time.Second, grace: 5 * time.Second,
	blocked: 10 * time.Second, settle: 2 * time.Second,
	goroutines: []int{16, 64, 256}, waiters: []int{2, 16, 64, 256}, workers: []int{16}, processes: []int{2, 16},
	blockers: 50, readers: 1000, holds: 10_000, ttls: []time.Duration{3 * time.Second, 30 * time.Second}, watched: 30 * time.Second,
}

// quick is the plan for -quick. It measures little, and only checks that every part of the
// benchmark works.
var quick = plan{
	rounds: 1, warm: 20 * time.Millisecond, trial: 100 * time.Millisecond, queued: 120 * time.Millisecond, steady: 200 * time.Millisecond, grace: time.Second,
	blocked: time.Second, settle: 500 * time.Millisecond,
	goroutines: []int{64}, waiters: []int{16}, workers: []int{4}, processes: []int{4}, blockers: 10, readers: 100,
	holds: 1000, ttls: []time.Duration{3 * time.Second}, watched: 3 * time.Second,
}

func main() {
	playChild()
	f := measure.DefineFlags("experiment")
	f.DefineQuick("a minute", full.rounds, quick.rounds)
	rows := flag.String("rows", "", "rows whose name matches this `regexp`; what others are compared with stays")
	flag.Parse()
	b := &bench{plan: full, progress: os.Stderr}
	if f.Quick {
		b.plan = quick
	}
	b.plan.rounds = f.Rounds(b.plan.rounds)
	h := &host{}
	err := h.measure(b, os.Stdout, f.Only, *rows, f.JSON)
	h.end()
	measure.ExitIf("redis", err)
}

func (h *host) measure(b *bench, out io.Writer, only, rows string, asJSON bool) (err error) {
	if b.rig, err = h.start(); err != nil {
		return err
	}
	return b.run(out, only, rows, asJSON)
}

// experiment is an Experiment and the maximum number of rounds for it.
type experiment struct {
	*measure.Experiment
	most int
}

func (b *bench) experiments() (all []experiment) {
	add := func(e *measure.Experiment, most int) {
		if len(e.Rows) > 0 {
			all = append(all, experiment{e, most})
		}
	}
	const any = 1 << 10
	for _, awake := range []bool{false, true} {
		add(b.pinned(awake), any)
	}
	for _, n := range b.plan.goroutines {
		add(b.uncontended(n), any)
	}
	for _, ownClients := range []bool{true, false} {
		for _, n := range b.plan.waiters {
			add(b.drain(n, ownClients), any)
		}
		for _, n := range b.plan.workers {
			add(b.steady(n, ownClients), any)
		}
	}
	for _, n := range b.plan.processes {
		add(b.procs(n), any)
	}
	add(b.permits(), any)
	add(b.slotQueue(64), any)
	add(b.readers(b.plan.readers), any)
	// These trials last for seconds, and each figure is a mean over that time.
	add(b.blockedProcs(b.plan.blockers), 1)
	for _, ttl := range b.plan.ttls {
		add(b.renewals(b.plan.holds, ttl, b.plan.watched), 1)
	}
	return all
}

// run makes the experiments and prints them. It returns an error if the benchmark itself fails or a
// pattern is wrong. A missed target is no error.
func (b *bench) run(out io.Writer, only, rows string, asJSON bool) error {
	report, err := measure.NewReport(out, b.progress, only, asJSON)
	if err != nil {
		return err
	}
	if b.rows, err = regexp.Compile(rows); err != nil {
		return err
	}
	for _, e := range b.experiments() {
		report.Run(e.Experiment, min(b.plan.rounds, e.most), nil)
	}
	return report.End()
}
