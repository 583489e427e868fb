package command

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/history"
)

// pastRun is a run in JSON.
type pastRun struct {
	named
	Outcome history.Outcome `json:"outcome"`
	ID      string          `json:"id"`
	Start   time.Time       `json:"start"`
	End     time.Time       `json:"end,omitzero"`
	Seconds float64         `json:"seconds,omitempty"` // how long it took
	Waited  float64         `json:"waited_seconds"`
	Exit    *int            `json:"exit,omitempty"` // absent if the run has no end
	Signal  string          `json:"signal,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Host    string          `json:"host,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Label   string          `json:"label,omitempty"`
	Fence   uint64          `json:"fence,omitempty"`
	Slot    *int            `json:"slot,omitempty"`
	Shared  bool            `json:"shared,omitempty"`
	By      []holder        `json:"by,omitempty"` // if the run was skipped, the holders of the lock
	Asked   *pastQuestion   `json:"asked,omitempty"`
}

// pastQuestion says who asked a run to finish early.
type pastQuestion struct {
	At     time.Time `json:"at"`
	Host   string    `json:"host,omitempty"`
	PID    int       `json:"pid,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// holder is the JSON form of one holder of a lock. If a run was skipped because others held the
// lock, the run lists these holders.
type holder struct {
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`
}

func newPastRun(r *history.Run) pastRun {
	out := pastRun{
		named: newNamed(r.Name), Outcome: r.Outcome(), ID: r.ID, Start: r.Start.UTC(), End: r.End.UTC(),
		Seconds: r.Duration().Seconds(), Waited: r.Waited.Seconds(), Signal: r.Signal, Reason: r.Reason,
		Host: r.Host, PID: r.PID, Label: r.Label, Fence: r.Fence, Shared: r.Shared,
	}
	if r.Skipped || !r.End.IsZero() {
		out.Exit = &r.Exit
	}
	if r.Slot >= 0 {
		out.Slot = &r.Slot
	}
	if !r.Asked.IsZero() {
		out.Asked = &pastQuestion{r.Asked.UTC(), r.AskedBy.Host, r.AskedBy.PID, r.AskedBy.Label}
	}
	for _, h := range r.By {
		out.By = append(out.By, holder{h.Host, h.PID, h.Label})
	}
	return out
}

// tellRuns writes the starts of a name that the flags choose. The Locker is nil if the store could
// not be opened.
func (a *app) tellRuns(ctx context.Context, page *bytes.Buffer, l *padlock.Locker, log *history.Log, name string, set *past) error {
	runs, incomplete := log.Runs(ctx, name)
	incomplete = cmp.Or(markRunning(ctx, l, runs), incomplete)
	filter := set.filter()
	starts := slices.DeleteFunc(history.Starts(runs), func(s history.Start) bool { return !filter.Matches(&s) })
	if a.json {
		a.printRuns(page, starts, set)
		return incomplete
	}
	starts = starts[:set.cut(len(starts))]
	switch {
	case len(starts) > 0:
	case len(runs) > 0:
		a.remark(name, "no run of %s is one that the flags choose", show(name))
		return incomplete
	default:
		if incomplete == nil {
			a.remark(name, "no runs of %s are recorded; padlock run --record records them", show(name))
		}
		return incomplete
	}
	now := time.Now()
	w := tabwriter.NewWriter(page, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "START\tTOOK\tWAITED\tRUN BY\tOUTCOME")
	for i := range starts {
		s := &starts[i]
		r := s.Last()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clock(r.Start, now), lengthOf(r), span(r.Waited), runBy(s), outcomeOf(s))
	}
	return incomplete
}

// printRuns prints the runs of the starts in JSON, the newest start first.
func (a *app) printRuns(page *bytes.Buffer, starts []history.Start, set *past) {
	var all []*history.Run
	for i := range starts {
		runs := slices.Clone(starts[i].Skipped)
		if starts[i].Run != nil {
			runs = append(runs, starts[i].Run)
		}
		slices.SortStableFunc(runs, func(x, y *history.Run) int { return y.Start.Compare(x.Start) })
		all = append(all, runs...)
	}
	all = slices.DeleteFunc(all, func(r *history.Run) bool { return set.host != "" && r.Host != set.host })
	for _, r := range all[:set.cut(len(all))] {
		_ = a.print(page, newPastRun(r)) // the page takes everything
	}
}

// runBy names the process of a start. If several machines skipped it, runBy names their hosts.
func runBy(s *history.Start) string {
	if s.Run == nil && len(s.Skipped) > 1 {
		return s.SkippedOn(show)
	}
	r := s.Last()
	return holderName(padlock.Hold{Holder: driver.Holder{Host: r.Host, PID: r.PID, Label: r.Label}})
}

// outcomeOf describes how a start ended.
func outcomeOf(s *history.Start) string {
	text := outcome(s.Last())
	if s.Run != nil && len(s.Skipped) > 0 {
		text += "; skipped on " + s.SkippedOn(show)
	}
	return text
}

// Some of the runs may have no recorded end. markRunning asks the store whether they still hold the
// lock, and if so, marks them as running. If l is nil, it changes nothing.
func markRunning(ctx context.Context, l *padlock.Locker, runs []history.Run) error {
	if l == nil {
		return nil
	}
	return history.AskRunning(ctx, runs, l.Inspect)
}

func lengthOf(r *history.Run) string {
	if r.Skipped || r.End.IsZero() {
		return "-"
	}
	return span(r.Duration())
}

// outcome describes how a run ended.
func outcome(r *history.Run) string {
	text := ""
	switch r.Outcome() {
	case history.Running:
		text = "running"
	case history.NoEnd:
		text = "no end recorded"
	case history.Skipped:
		text = "skipped: " + show(r.Reason)
		for i, h := range r.By {
			text += [...]string{" by ", ", "}[min(i, 1)] + holderName(padlock.Hold{Holder: h})
		}
	case history.Success:
		text = "success"
	default:
		text = fmt.Sprintf("exit %d", r.Exit)
		if r.Signal != "" {
			text = "killed by " + show(r.Signal)
		}
		if r.Reason != "" {
			text += " (" + show(r.Reason) + ")"
		}
	}
	if r.Slot >= 0 {
		text += fmt.Sprintf(", slot %d", r.Slot)
	}
	if !r.Asked.IsZero() {
		text += fmt.Sprintf(", asked after %s by %s", span(r.Asked.Sub(r.Start)), holderName(padlock.Hold{Holder: r.AskedBy}))
	}
	return text
}
