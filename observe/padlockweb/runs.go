package padlockweb

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/printable"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/sampler"
)

// run is a past run, as the page of a name shows it.
type run struct {
	Began              time.Time
	Outcome            history.Outcome
	Detail             string // the reason, the holders that were in the way, the signal or the exit status
	Waited, Took, Host string
}

const (
	runsPatience = 3 * time.Second
	maxRuns      = 25 // rows of the page
	keepRuns     = 10 * time.Second
	keepPartial  = time.Second // if a history could not be read, some figures are missing
)

// latestRuns returns the latest runs of a name. If there may be more runs, it also returns a
// sentence that says so.
func (w *Web) latestRuns(ctx context.Context, name string, one *sampler.Name) ([]run, string) {
	if w.history == nil {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, runsPatience)
	defer cancel()
	past, err := w.history.Runs(ctx, name)
	markRunning(past, name, one)
	var list []run
	for i := range past[:min(len(past), maxRuns)] {
		list = append(list, newRun(&past[i]))
	}
	switch {
	case err != nil:
		return list, "There may be more runs than these: " + printable.Name(err.Error())
	case len(past) > maxRuns:
		return list, "There are " + strconv.Itoa(len(past)-maxRuns) + " older runs; padlock history shows them."
	}
	return list, ""
}

// markRunning finds the runs that hold the lock now.
func markRunning(past []history.Run, name string, one *sampler.Name) {
	for _, h := range one.Holds {
		stored := name
		if h.Slot >= 0 {
			stored = driver.SlotName(name, h.Slot)
		}
		history.MarkRunning(past, padlock.State{Name: stored, Holds: []padlock.Hold{h.Hold}})
	}
}

func newRun(r *history.Run) run {
	out := run{
		Began: r.Start, Outcome: r.Outcome(), Took: "unknown", Waited: span(r.Waited),
		Host: holderName(r.Host, r.PID, false), Detail: printable.Name(r.Reason),
	}
	switch {
	case r.Skipped:
		out.Took = "did not run"
		for i, h := range r.By {
			out.Detail += []string{" by ", ", "}[min(i, 1)] + holderName(h.Host, h.PID, false)
			if h.Label != "" {
				out.Detail += " (" + printable.Name(h.Label) + ")"
			}
		}
	case r.Running:
		out.Took = span(timeNow().Sub(r.Start)) + " so far"
	case !r.End.IsZero():
		out.Took = span(r.Duration())
		if r.Signal != "" {
			out.Detail += " killed by " + printable.Name(r.Signal)
		} else if r.Exit != 0 {
			out.Detail += " exit status " + strconv.Itoa(r.Exit)
		}
	}
	return out
}

// runFigures keeps the figures of past runs for a while, because computing them means reading all
// histories. It has separate figures for each prefix, because a visitor may be limited to the names
// with one prefix.
type runFigures struct {
	mu  sync.Mutex
	all map[string]*keptFigures
}

type keptFigures struct {
	mu    sync.Mutex // held while the histories are read, so that only one request reads them
	until time.Time
	text  []byte
}

// writeRuns writes the figures of the past runs that the visitor sees.
func (w *Web) writeRuns(ctx context.Context, out io.Writer, v *visitor) error {
	if w.history == nil {
		return nil
	}
	kept := w.kept.of(v.prefix)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	var err error
	if timeNow().After(kept.until) {
		// The visitor may go away, but the figures are also for the next visitors.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runsPatience)
		defer cancel()
		var text bytes.Buffer
		err = w.history.WriteMetrics(ctx, &text, v.prefix)
		kept.text, kept.until = text.Bytes(), timeNow().Add(keepRuns)
		if err != nil {
			kept.until = timeNow().Add(keepPartial)
		}
	}
	out.Write(kept.text)
	return err
}

// maxKeptFigures is the largest number of prefixes whose figures are kept.
const maxKeptFigures = 100

func (f *runFigures) of(prefix string) *keptFigures {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil || len(f.all) >= maxKeptFigures {
		f.all = make(map[string]*keptFigures)
	}
	kept := f.all[prefix]
	if kept == nil {
		kept = &keptFigures{}
		f.all[prefix] = kept
	}
	return kept
}
