package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds  int
	warm    time.Duration
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
	plan     plan
	rig      *rig
	progress io.Writer
	rows     *regexp.Regexp
	names    int
}

// contestants returns the rows of all tables.
func contestants() []contestant { return slices.Concat(padlocks(), peers(), limits()) }

// name returns a name that no earlier trial has used. The new name contains the given text.
func (b *bench) name(what string) string {
	b.names++
	return fmt.Sprintf("bench:%s:%d", what, b.names)
}

// fill adds a row to e for each contestant that takes part in a scenario.
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
