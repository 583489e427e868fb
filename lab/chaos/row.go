package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/padlock-go/padlock/lab/chaos/rig"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/lab/soak/linear"
)

// run is one line of the table: a row with the covered faults, or with all faults.
type run struct {
	row    rig.Row
	all    bool
	result result
	why    string       // why the result is broken or rigFailed, in a few lines
	report *soak.Report // nil if the row did not run to its end
}

// result is the first word of a line of the table.
type result string

const (
	notRun     result = ""
	ok         result = "ok"
	broken     result = "BROKEN"   // a promise was broken
	measured   result = "measured" // violations under faults that the store does not cover
	rigFailed  result = "NO RIG"   // the servers or faults of the row failed twice, so nothing is known about the store
	doneBefore result = "done before"
)

// runRow runs a row and judges it. An error means that the row proves nothing.
func (s *settings) runRow(ctx context.Context, r *run) error {
	row, all := r.row, r.all
	if s.done(row, all) {
		r.result = doneBefore
		return nil
	}
	o := s.Options
	o.All = all
	ran, out, err := s.play(&row, ctx, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, soak.ErrWorker) {
		r.result, r.why = broken, s.crash(r, err)
		return nil
	}
	if err != nil {
		return err
	}
	p := soak.NewReport(ran, out)
	if !all && p.Grants < s.least {
		return fmt.Errorf("%d grants prove nothing; refused: %v", p.Grants, p.Refused)
	}
	dir := s.dir(row, all)
	v, err := linear.Check(out.Events, "", time.Minute)
	if p.Sum() > 0 || v.Illegal > 0 {
		err = errors.Join(err, linear.Keep(dir, out.Events, v))
	}
	if err != nil {
		return err
	}
	p.Verdict = v.String()
	s.tell(p, v, dir, row.Name, all)
	r.report, r.result = p, ok
	if p.Sum() > 0 || v.Illegal+v.Unknown > 0 {
		r.result = broken
		if all {
			r.result = measured
		} else {
			r.why = s.summary(row.Name, p, v)
		}
	}
	return s.publish(row, all, p, v)
}

// summary describes in a few lines which row failed, how it failed, and how to run it again.
func (s *settings) summary(row string, p *soak.Report, v linear.Verdict) string {
	text := fmt.Sprintf("  %s: %s; porcupine: %v\n", row, p.Measured(), v)
	if len(p.Of) > 0 {
		text += fmt.Sprintf("    first: %v\n", p.Of[0])
	}
	return text + "    the same again: " + s.repeatCommand(row, false)
}

// repeatCommand returns the command that runs the soak of one row again, with the seed and the
// settings of this run.
func (s *settings) repeatCommand(row string, all bool) string {
	faults := map[bool]string{false: "covered", true: "all"}[all]
	return fmt.Sprintf("cd lab && go run ./chaos -seed %d -only '^%s$' -faults %s -for %v -tail %v -every %v -lanes %d -workers %d -kinds '%s'",
		s.Seed, regexp.QuoteMeta(row), faults, s.For, s.Tail, s.Every, s.Lanes, s.Workers, s.Kinds)
}

// tell prints the report. If the run failed, it also stores the report next to the history.
func (s *settings) tell(p *soak.Report, v linear.Verdict, dir, row string, all bool) {
	kind := map[bool]string{false: "covered faults", true: "all faults"}[all]
	fmt.Printf("== %s\n", kind)
	p.Write(os.Stdout)
	if p.Sum() == 0 && v.Illegal == 0 {
		return
	}
	again := s.repeatCommand(row, all)
	fmt.Printf("  no lock's history: %v\n  kept in %s; the same again: %s\n", v.Names, dir, again)
	if f, err := os.Create(filepath.Join(dir, "report.txt")); err == nil { // an error is ignored, because the history is enough
		p.Write(f)
		fmt.Fprintln(f, again)
		f.Close()
	}
}

func (s *settings) dir(row rig.Row, all bool) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(row.Name), "-")
	return filepath.Join(s.keep, fmt.Sprintf("%s-%v-%d", name, all, s.Seed))
}

// crash describes a worker that failed.
func (s *settings) crash(r *run, err error) string {
	s.Say(fmt.Sprintf("%s: %v", r.row.Name, err))
	return fmt.Sprintf("  %s: %v\n    the same again: %s", r.row.Name, err, s.repeatCommand(r.row.Name, r.all))
}
