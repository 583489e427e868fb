package padlockweb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// run is a start of a job, as the pages show it.
type run struct {
	Began              time.Time
	Outcome            history.Outcome
	Detail             string // the reason, the holders that were in the way, the signal or the exit status
	Also               string // on which hosts the same start was skipped
	Waited, Took, Host string
}

const (
	runsPatience = 3 * time.Second
	maxRuns      = 25 // rows of the page
)

// pastRuns returns the runs of a name, the newest first.
func (w *Web) pastRuns(ctx context.Context, name string, one *sampler.Name) ([]history.Run, error) {
	if w.history == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, runsPatience)
	defer cancel()
	past, err := w.history.Runs(ctx, name)
	markRunning(past, name, one)
	open := func(r history.Run) bool { return r.Outcome() == history.NoEnd }
	if err == nil && one.State == sampler.Unknown && slices.ContainsFunc(past, open) {
		err = fmt.Errorf("it is not known which runs are going on: %s", one.Why)
	}
	return past, err
}

// latestRuns returns the latest of the starts. If there may be more, it also returns a sentence that
// says so.
func (v *visitor) latestRuns(starts []history.Start, err error) ([]run, string) {
	var list []run
	for i := range starts[:min(len(starts), maxRuns)] {
		list = append(list, newRun(&starts[i]))
	}
	switch {
	case err != nil:
		return list, "There may be more runs than these, and some may be running: " + printable.Name(v.reason(err, "the history cannot be read"))
	case len(starts) > maxRuns:
		return list, "There are " + count(len(starts)-maxRuns, "older start", "older starts") + "; padlock history shows them."
	}
	return list, ""
}

// markRunning finds the runs that hold the lock now.
func markRunning(past []history.Run, name string, one *sampler.Name) {
	for _, h := range one.Holds {
		stored := name
		if h.Slot >= 0 {
			stored = fast.SlotName(name, h.Slot)
		}
		history.MarkRunning(past, padlock.State{Name: stored, Holds: []padlock.Hold{h.Hold}})
	}
}

// newRun describes a start by its run. The hosts that were skipped are in one more line.
func newRun(s *history.Start) run {
	r := s.Last()
	out := run{
		Began: r.Start, Outcome: r.Outcome(), Took: "unknown", Waited: span(r.Waited),
		Host: holderName(r.Host, r.PID, false),
	}
	detail := []string{}
	if r.Reason != "" {
		detail = append(detail, printable.Name(r.Reason))
	}
	switch {
	case r.Skipped:
		out.Took = "did not run"
		out.Detail = printable.Name(r.Reason) + inTheWay(r)
		if len(s.Skipped) > 1 {
			out.Host = s.SkippedOn(printable.Name)
		}
		return out
	case r.Running:
		out.Took = span(time.Since(r.Start)) + " so far"
	case !r.End.IsZero():
		out.Took = span(r.Duration())
		if r.Signal != "" {
			detail = append(detail, "killed by "+printable.Name(r.Signal))
		} else if r.Exit != 0 {
			detail = append(detail, "exit status "+strconv.Itoa(r.Exit))
		}
	}
	if !r.Asked.IsZero() {
		detail = append(detail, "asked after "+span(r.Asked.Sub(r.Start))+" by "+holderName(r.AskedBy.Host, r.AskedBy.PID, false)+inBrackets(r.AskedBy.Label))
	}
	out.Detail = strings.Join(detail, ", ")
	if len(s.Skipped) > 0 {
		out.Also = "skipped on " + s.SkippedOn(printable.Name)
	}
	return out
}

// inTheWay names the holders because of which a run was skipped.
func inTheWay(r *history.Run) (text string) {
	for i, h := range r.By {
		text += []string{" by ", ", "}[min(i, 1)] + holderName(h.Host, h.PID, false)
		text += inBrackets(h.Label)
	}
	return text
}

func inBrackets(label string) string {
	if label == "" {
		return ""
	}
	return " (" + printable.Name(label) + ")"
}
