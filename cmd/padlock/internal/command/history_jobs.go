package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// pastJob is a name with its latest runs in JSON.
type pastJob struct {
	named
	Level     history.Level `json:"level"`
	Run       *pastRun      `json:"run"` // the newest one that the flags choose
	SkippedOn []string      `json:"skipped_on,omitempty"`
	Usual     float64       `json:"usual_seconds,omitempty"`
	Due       time.Time     `json:"due,omitzero"`
	HeldBy    []holder      `json:"held_by,omitempty"`
	Last      *pastRun      `json:"last,omitempty"`
	Success   *pastRun      `json:"last_success,omitempty"`
	Failure   *pastRun      `json:"last_failure,omitempty"`
	Skipped   *pastRun      `json:"last_skipped,omitempty"`
}

func newPastJob(j *history.Job, now *sampler.Name) pastJob {
	one := func(r *history.Run) *pastRun {
		if r == nil {
			return nil
		}
		p := newPastRun(r)
		return &p
	}
	out := pastJob{
		named: newNamed(j.Name), Level: j.Level, Run: one(j.Start.Last()), Usual: j.Usual.Seconds(), Due: j.Due.UTC(),
		Last: one(j.Last), Success: one(j.LastSuccess), Failure: one(j.LastFailure), Skipped: one(j.LastSkipped),
	}
	for _, r := range j.Start.Skipped {
		if r != j.Start.Last() {
			out.SkippedOn = append(out.SkippedOn, r.Host)
		}
	}
	if now != nil {
		for _, h := range now.Holds {
			out.HeldBy = append(out.HeldBy, holder{h.Host, h.PID, h.Label})
		}
	}
	return out
}

// tellJobs writes a line for each name that has a run that the flags choose.
func (a *app) tellJobs(ctx context.Context, page *bytes.Buffer, l *padlock.Locker, log *history.Log, set *past) error {
	held, unlisted := heldNow(ctx, l)
	jobs, incomplete := log.Jobs(ctx, "", set.filter(), func(_ string, runs []history.Run) error { return markRunning(ctx, l, runs) })
	incomplete = cmp.Or(incomplete, unlisted)
	if len(jobs) == 0 && incomplete == nil {
		if set.filter() != (history.Filter{}) {
			a.remark("", "no run is one that the flags choose")
		} else {
			a.remark("", "no runs are recorded; padlock run --record records them")
		}
	}
	now := time.Now()
	w := tabwriter.NewWriter(page, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for i := range jobs[:set.cut(len(jobs))] {
		j := &jobs[i]
		if a.json {
			_ = a.print(page, newPastJob(j, held[j.Name])) // the page takes everything
			continue
		}
		if i == 0 {
			fmt.Fprintln(w, "NAME\tLAST RUN\tLAST SUCCESS\tTOOK\tUSUALLY\tRUN BY\tOUTCOME")
		}
		start, success, usual := "-", "-", "-"
		if j.Start.Run != nil {
			start = clock(j.Start.Run.Start, now)
		}
		if j.LastSuccess != nil {
			success = clock(j.LastSuccess.End, now)
		}
		if j.Usual > 0 {
			usual = span(j.Usual)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", show(j.Name), start, success, lengthOf(j.Start.Last()), usual, runBy(&j.Start), outcomeOf(&j.Start)+newsOf(j, held[j.Name], now))
	}
	return incomplete
}

// newsOf says what else there is to know about a job, after its outcome.
func newsOf(j *history.Job, held *sampler.Name, now time.Time) (text string) {
	if j.Level == history.LevelOverdue {
		text += "; overdue since " + clock(j.Due, now)
	}
	if j.IsSlow(now) {
		text += "; slow"
	}
	if held != nil && len(held.Holds) > 0 && j.Start.Last().Outcome() != history.Running {
		text += "; held now by " + holderName(held.Holds[0].Hold)
	}
	return text
}

// heldNow returns the names that are held now. A store that lists no names by its nature has none.
func heldNow(ctx context.Context, l *padlock.Locker) (map[string]*sampler.Name, error) {
	held := map[string]*sampler.Name{}
	if l == nil {
		return held, nil
	}
	states, err := l.List(ctx, "")
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	all := sampler.DescribeAll(states, time.Now())
	for i := range all {
		if all[i].State == sampler.Held {
			held[all[i].Name] = &all[i]
		}
	}
	return held, err
}
