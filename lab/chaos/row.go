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
	why    string       // why the result is broken or rigFailed
	report *soak.Report // nil if the row did not run to its end
}

// result is the first word of a line of the table.
type result string

const (
	notRun    result = "not run"
	ok        result = "ok"
	broken    result = "BROKEN"   // a promise was broken
	measured  result = "measured" // violations under faults that the store does not cover
	rigFailed result = "NO RIG"   // the servers or faults of the row failed twice, so nothing is known about the store
)

// runRow runs a row and judges it. An error means that the row proves nothing.
func (s *settings) runRow(ctx context.Context, r *run) error {
	o := s.Options
	o.All = r.all
	ran, out, err := s.play(&r.row, ctx, o)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, soak.ErrWorker):
		s.Say(fmt.Sprintf("%s: %v", r.row.Name, err))
		r.result, r.why = broken, err.Error()
		return nil
	case err != nil:
		return err
	}
	p, err := linear.Judge(ran, out, s.dir(r), time.Minute)
	if err != nil {
		return err
	}
	if !r.all && p.Grants < s.least {
		return fmt.Errorf("%d grants prove nothing; refused: %v", p.Grants, p.Refused)
	}
	s.tell(r, p)
	r.report, r.result = p, ok
	switch {
	case p.Kept():
	case r.all:
		r.result = measured
	default:
		r.result, r.why = broken, fmt.Sprintf("%s; porcupine: %v", p.Measured(), p.Verdict)
		if len(p.Of) > 0 {
			r.why += fmt.Sprintf("\n    first: %v", p.Of[0])
		}
	}
	return s.publish(r.row, r.all, p)
}

// repeatCommand returns the command that makes a run again, with the seed and the settings of this
// one.
func (s *settings) repeatCommand(r *run) string {
	return fmt.Sprintf("cd lab && go run ./chaos -seed %d -only '^%s$' -faults %s -for %v -tail %v -every %v -lanes %d -workers %d -kinds '%s'",
		s.Seed, regexp.QuoteMeta(r.row.Name), lane(r.all), s.For, s.Tail, s.Every, s.Lanes, s.Workers, s.Kinds)
}

// tell prints the report. If a promise was broken, the report is next to the history, too.
func (s *settings) tell(r *run, p *soak.Report) {
	var text strings.Builder
	fmt.Fprintf(&text, "== %s faults\n", lane(r.all))
	p.Write(&text)
	fmt.Print(&text)
	if p.History != "" { // an error is ignored, because the history is enough
		_ = os.WriteFile(filepath.Join(p.History, "report.txt"), []byte(text.String()+s.repeatCommand(r)+"\n"), 0o600)
	}
}

// dir is where a run that fails leaves its history.
func (s *settings) dir(r *run) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(r.row.Name), "-")
	return filepath.Join(s.keep, fmt.Sprintf("%s-%v-%d", name, r.all, s.Seed))
}
