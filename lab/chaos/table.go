package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/lab/soak"
)

// makeRuns makes all runs. A run that fails because of its servers or faults does not stop the
// others. It gets a second try, after all others.
func (s *settings) makeRuns(ctx context.Context) {
	left := s.runs
	for range 2 {
		var failed []*run
		for _, r := range left {
			if ctx.Err() != nil {
				return
			}
			if err := s.runRow(ctx, r); err != nil && ctx.Err() == nil {
				s.Say(fmt.Sprintf("%s: the rig failed, and the other rows go on: %v", r.row.Name, err))
				r.why = fmt.Sprintf("  %s: %v\n    the same again: %s", r.row.Name, err, s.repeatCommand(r.row.Name, r.all))
				failed = append(failed, r)
			}
		}
		left = failed
	}
	for _, r := range left {
		r.result = rigFailed
	}
}

// printTable prints a line for each run.
func (s *settings) printTable(w io.Writer) {
	fmt.Fprintf(w, "\n%-11s  %-8s %8s %7s  %s (seed %d)\n", "result", "faults", "grants", "faults", "row", s.Seed)
	for _, r := range s.runs {
		kind, grants, faults, violations := "covered", "", "", ""
		if r.all {
			kind = "all"
		}
		if r.report != nil {
			grants, faults = fmt.Sprint(r.report.Grants), fmt.Sprint(r.report.FaultSum())
			if r.report.Sum() > 0 {
				violations = ": " + r.report.Measured()
			}
		}
		name := r.result
		if name == notRun {
			name = "not run"
		}
		fmt.Fprintf(w, "%-11s  %-8s %8s %7s  %s%s\n", name, kind, grants, faults, r.row.Name, violations)
	}
	fmt.Fprintln(w)
}

// verdict returns an error if a store broke what it promises, or if a row proves nothing even at
// its second try. If the run was whole, each pair of a feature and a fault must have met.
func (s *settings) verdict(whole bool) error {
	var parts []string
	for _, r := range []result{broken, rigFailed} {
		var why []string
		for _, x := range s.runs {
			if x.result == r {
				why = append(why, strings.TrimRight(x.why, "\n"))
			}
		}
		if len(why) > 0 {
			what := map[result]string{broken: "rows broke a promise", rigFailed: "rows prove nothing, because their servers or faults failed twice"}[r]
			parts = append(parts, fmt.Sprintf("%d %s (seed %d):\n%s", len(why), what, s.Seed, strings.Join(why, "\n")))
		}
	}
	if unmet := soak.Unmet(s.pairs, reasons); whole && len(unmet) > 0 {
		parts = append(parts, fmt.Sprintf("%d pairs did not meet, for no known reason: %v", len(unmet), unmet))
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(parts, "\n"))
}

// reasons say why some pairs of the table do not meet.
var reasons = []soak.Reason{
	{Feature: "Detached", Classes: slices.DeleteFunc(slices.Clone(soak.Classes), func(class string) bool {
		return class == soak.Kill || class == soak.Stop || class == soak.ShortWaits
	}), Why: "only locks on files can be detached from their process (on other stores all locks are, or none), and files have no server"},
	{Feature: soak.CheckTx, Classes: []string{soak.ClockStep}, Why: "the clock of PostgreSQL, MySQL and SQLite is the clock of this machine, which a soak must not set"},
	{Feature: soak.LockTx, Classes: []string{soak.ClockStep}, Why: "as for CheckTx"},
}
