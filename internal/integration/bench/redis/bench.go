package main

import (
	"fmt"
	"io"
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

// bench is one run.
type bench struct {
	plan     plan
	rig      *rig
	progress io.Writer
	rows     *regexp.Regexp
	names    int
}

// contestants returns the rows of all tables.
func contestants() []contestant { return slices.Concat(padlocks(), peers(), limits()) }

// name returns a name that no earlier trial has used.
func (b *bench) name(what string) string {
	b.names++
	return fmt.Sprintf("bench:%s:%d", what, b.names)
}

// fill adds the contestants of a scenario as rows.
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
