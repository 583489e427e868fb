//go:build linux

// Command redis measures locks in Redis: padlock's, those of other libraries,
// and what the server and the machine allow at best. It starts a Redis of its
// own. See package bench for how; `make bench-redis` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/padlock-go/padlock/internal/integration/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds  int
	warm    time.Duration
	trial   time.Duration // uncontended
	queued  time.Duration // how long waiters have waited before a drain
	steady  time.Duration // steady and procs
	grace   time.Duration // after it, before a worker that still waits counts as stranded
	blocked time.Duration
	settle  time.Duration // before blocked processes count as waiting

	goroutines []int // uncontended
	waiters    []int // drain
	workers    []int // steady
	processes  []int // procs
	blockers   int

	holds   int
	ttls    []time.Duration // of these holds
	watched time.Duration   // how long their renewals are watched
}

var full = plan{
	rounds: 5, warm: 100 * time.Millisecond, trial: 500 * time.Millisecond, queued: 120 * time.Millisecond, steady: time.Second, grace: 5 * time.Second,
	blocked: 10 * time.Second, settle: 2 * time.Second,
	goroutines: []int{16, 64, 256}, waiters: []int{2, 16, 64, 256}, workers: []int{16}, processes: []int{2, 16},
	blockers: 50, holds: 10_000, ttls: []time.Duration{3 * time.Second, 30 * time.Second}, watched: 10 * time.Second,
}

// quick is a look, and enough that nothing rots unseen.
var quick = plan{
	rounds: 1, warm: 20 * time.Millisecond, trial: 100 * time.Millisecond, queued: 120 * time.Millisecond, steady: 200 * time.Millisecond, grace: time.Second,
	blocked: time.Second, settle: 500 * time.Millisecond,
	goroutines: []int{64}, waiters: []int{16}, workers: []int{4}, processes: []int{4}, blockers: 10,
	holds: 1000, ttls: []time.Duration{3 * time.Second}, watched: 3 * time.Second,
}

func main() {
	playChild()
	short := flag.Bool("quick", false, "measure less, in a minute")
	rounds := flag.Int("rounds", 0, "rounds instead of 5, or of 1 with -quick")
	only := flag.String("only", "", "experiments whose name matches this `regexp`")
	rows := flag.String("rows", "", "rows whose name matches this `regexp`; what others are compared with stays")
	asJSON := flag.Bool("json", false, "write the figures of every round as JSON, one object for each experiment")
	flag.Parse()
	b := &bench{plan: full, progress: os.Stderr}
	if *short {
		b.plan = quick
	}
	if *rounds > 0 {
		b.plan.rounds = *rounds
	}
	h := &host{}
	err := h.measure(b, os.Stdout, *only, *rows, *asJSON)
	h.end()
	if err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

func (h *host) measure(b *bench, out io.Writer, only, rows string, asJSON bool) (err error) {
	if b.rig, err = h.start(); err != nil {
		return err
	}
	return b.run(out, only, rows, asJSON)
}

// bench is one run.
type bench struct {
	plan     plan
	rig      *rig
	progress io.Writer
	rows     *regexp.Regexp
	names    int
}

// contestants are all rows of all tables.
func contestants() []contestant { return slices.Concat(padlocks(), peers(), limits()) }

// name is a name that no trial had before.
func (b *bench) name(what string) string {
	b.names++
	return fmt.Sprintf("bench:%s:%d", what, b.names)
}

// fill adds the rows that stand in a table.
func (b *bench) fill(e *measure.Experiment, in scenario, trial func(*contestant) (measure.Figures, error)) {
	for _, c := range contestants() {
		if c.in&in == 0 || !b.rows.MatchString(c.name) && c.name != e.Base {
			continue
		}
		e.Rows = append(e.Rows, measure.Row{Name: c.name, Run: func() (measure.Figures, error) {
			if err := b.rig.clear(); err != nil {
				return nil, err
			}
			return trial(&c)
		}})
	}
	e.Targets = onlyOf(e)
}

// onlyOf leaves out the targets of rows that are not measured.
func onlyOf(e *measure.Experiment) (kept []measure.Target) {
	for _, t := range e.Targets {
		for _, r := range e.Rows {
			if r.Name == t.Row {
				kept = append(kept, t)
			}
		}
	}
	return kept
}

// experiment is one of measure's, and how many rounds of it are the most.
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
	for _, n := range b.plan.goroutines {
		add(b.uncontended(n), any)
	}
	for _, each := range []bool{true, false} {
		for _, n := range b.plan.waiters {
			add(b.drain(n, each), any)
		}
		for _, n := range b.plan.workers {
			add(b.steady(n, each), any)
		}
	}
	for _, n := range b.plan.processes {
		add(b.procs(n), any)
	}
	// These last for seconds, and are means of as long.
	add(b.blockedProcs(b.plan.blockers), 1)
	for _, ttl := range b.plan.ttls {
		add(b.renewals(b.plan.holds, ttl, b.plan.watched), 1)
	}
	return all
}

// run makes the experiments and prints them; an error is one of the harness or
// of a broken pattern, never a target that is missed.
func (b *bench) run(out io.Writer, only, rows string, asJSON bool) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if b.rows, err = regexp.Compile(rows); err != nil {
		return err
	}
	var results []*measure.Result
	for _, e := range b.experiments() {
		if !chosen.MatchString(e.Name) {
			continue
		}
		r := e.Run(min(b.plan.rounds, e.most), b.progress)
		results = append(results, r)
		if asJSON {
			err = errors.Join(err, r.JSON(out))
		} else {
			r.Print(out)
		}
	}
	if !asJSON {
		measure.PrintTargets(out, results)
	}
	return err
}
