package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
				r.why = err.Error()
				failed = append(failed, r)
			}
		}
		left = failed
	}
	for _, r := range left {
		r.result = rigFailed
	}
}

// printTable prints a line for each run. The column "again" is the longest time from the end of a
// fault to a worker's next lock (I13).
func (s *settings) printTable(w io.Writer) {
	fmt.Fprintf(w, "\n%-11s  %-8s %8s %7s %8s  %s (seed %d)\n", "result", "faults", "grants", "faults", "again", "row", s.Seed)
	for _, r := range s.runs {
		grants, faults, again, violations := "", "", "", ""
		if r.report != nil {
			grants, faults = fmt.Sprint(r.report.Grants), fmt.Sprint(r.report.FaultSum())
			again = short(r.report.Back())
			if r.report.Sum() > 0 {
				violations = ": " + r.report.Measured()
			}
		}
		fmt.Fprintf(w, "%-11s  %-8s %8s %7s %8s  %s%s\n", cmp.Or(r.result, notRun), lane(r.all), grants, faults, again, r.row.Name, violations)
	}
	fmt.Fprintln(w)
}

// verdict returns an error if a store broke what it promises, or if a row proves nothing even at
// its second try.
func (s *settings) verdict() error {
	var parts []string
	for _, r := range []result{broken, rigFailed} {
		var why []string
		for _, x := range s.runs {
			if x.result == r {
				why = append(why, fmt.Sprintf("  %s: %s\n    the same again: %s", x.row.Name, x.why, s.repeatCommand(x)))
			}
		}
		if len(why) > 0 {
			what := map[result]string{broken: "rows broke a promise", rigFailed: "rows prove nothing, because their servers or faults failed twice"}[r]
			parts = append(parts, fmt.Sprintf("%d %s (seed %d):\n%s", len(why), what, s.Seed, strings.Join(why, "\n")))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(parts, "\n"))
}
