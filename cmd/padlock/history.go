package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/observe/history"
)

const historyLong = `history shows the last runs of NAME that "padlock run --record" recorded, the newest
first: when each began, how it ended, how long it took and waited, and where it ran.
Without NAME it shows the last run and the last success of every name.

Each store has its own history. padlock keeps 50 runs and 50 skipped runs of a name,
in the state directory of this user on this machine and, with a store in files, in
Redis or in SQL, in the store, so that all machines share the history. A run without
an end either holds the lock ("running"), or was killed together with padlock ("no end
recorded").

--prometheus prints the time of the last success of every name, and other figures, in
the text format of Prometheus, for example for the textfile collector of node_exporter.

Exit status:
  0    done, even if there are no runs
  64   the command line or the store's URL is wrong
  69   the history in the store or in the directory cannot be read; the rest is shown
  74   the output could not be written`

func (a *app) historyCommand() *cobra.Command {
	prometheus := false
	c := &cobra.Command{
		Use:   "history [FLAGS] [NAME]",
		Short: "Show the last runs of a name",
		Long:  historyLong,
		Example: `  padlock history nightly-report
  padlock history --json nightly-report | jq 'select(.outcome != "success")'
  padlock history --prometheus > /var/lib/node_exporter/padlock_runs.new`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usage("one name at a time; see %s --help", c.CommandPath())
			case len(args) == 1 && prometheus:
				return usage("--prometheus prints all names, so it takes no NAME")
			case len(args) == 1 && args[0] == "":
				return usage("the name of the lock is empty")
			}
			return nil
		},
		ValidArgsFunction: a.completeRecorded,
		RunE: func(c *cobra.Command, args []string) error {
			return a.showHistory(c.Context(), strings.Join(args, ""), prometheus)
		},
	}
	c.Flags().BoolVar(&prometheus, "prometheus", false, "print figures of all names in the text format of Prometheus")
	return c
}

// completeRecorded completes NAME with the names that have a history on this machine.
func (a *app) completeRecorded(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	known, _ := a.history(nil).Names(c.Context(), begun) // after an error, Names returns the names that it could read
	for _, name := range known {
		if plain.MatchString(name) { // other names would need quotes
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// showHistory shows the runs of a name. If the name is empty, it shows a line for each name. If the
// store cannot be opened, it shows only the history of this machine.
func (a *app) showHistory(ctx context.Context, name string, prometheus bool) error {
	l, problem := a.looker(ctx, name)
	if problem == nil {
		defer a.close(l)
	}
	if why, ok := problem.(*failure); ok && why.status == exitUsage {
		return problem
	}
	var page bytes.Buffer
	var incomplete error
	switch log := a.history(a.opened); {
	case prometheus:
		incomplete = log.WriteMetrics(ctx, &page, "")
	case name == "":
		incomplete = a.tellNames(ctx, &page, l, log)
	default:
		incomplete = a.tellRuns(ctx, &page, l, log, name)
	}
	if _, err := a.stdout.Write(page.Bytes()); err != nil {
		return err
	}
	if problem == nil && incomplete != nil {
		return fail(exitUnavailable, "incomplete", name, "there may be more runs than these: %s", reason(incomplete))
	}
	return problem
}

// pastRun is a run in JSON.
type pastRun struct {
	named
	Outcome history.Outcome `json:"outcome"`
	ID      string          `json:"id"`
	Start   *time.Time      `json:"start"`
	End     *time.Time      `json:"end,omitempty"`
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
	By      []holder        `json:"by,omitempty"` // if the run was skipped, the holders of the lock
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
		named: newNamed(r.Name), Outcome: r.Outcome(), ID: r.ID, Start: known(r.Start), End: known(r.End),
		Seconds: r.Duration().Seconds(), Waited: r.Waited.Seconds(), Signal: r.Signal, Reason: r.Reason,
		Host: r.Host, PID: r.PID, Label: r.Label, Fence: r.Fence,
	}
	if r.Skipped || !r.End.IsZero() {
		out.Exit = &r.Exit
	}
	if r.Slot >= 0 {
		out.Slot = &r.Slot
	}
	for _, h := range r.By {
		out.By = append(out.By, holder{h.Host, h.PID, h.Label})
	}
	return out
}

// tellRuns writes the runs of a name. The Locker is nil if the store could not be opened.
func (a *app) tellRuns(ctx context.Context, page *bytes.Buffer, l *padlock.Locker, log *history.Log, name string) error {
	runs, incomplete := log.Runs(ctx, name)
	markRunning(ctx, l, runs)
	if a.json {
		for i := range runs {
			_ = a.print(page, newPastRun(&runs[i])) // the page takes everything
		}
		return incomplete
	}
	if len(runs) == 0 {
		if incomplete == nil {
			a.remark(name, "no runs of %s are recorded; padlock run --record records them", show(name))
		}
		return incomplete
	}
	now := time.Now()
	w := tabwriter.NewWriter(page, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "START\tTOOK\tWAITED\tRUN BY\tOUTCOME")
	for i := range runs {
		r := &runs[i]
		by := driver.Holder{Host: r.Host, PID: r.PID, Label: r.Label}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", clock(r.Start, now), lengthOf(r), span(r.Waited), holderName(padlock.Hold{Holder: by}), outcome(r))
	}
	return incomplete
}

// Some of the runs may have no recorded end. markRunning asks the store whether they still hold the
// lock, and if so, marks them as running. If the store cannot answer, or if l is nil, it changes
// nothing.
func markRunning(ctx context.Context, l *padlock.Locker, runs []history.Run) {
	asked := map[string]bool{}
	if l == nil {
		return
	}
	for i := range runs {
		r := &runs[i]
		if !r.End.IsZero() || r.Skipped {
			continue
		}
		name := r.Name
		if r.Slot >= 0 {
			name = driver.SlotName(name, r.Slot)
		}
		if asked[name] {
			continue
		}
		asked[name] = true
		if state, err := l.Inspect(ctx, name); err == nil {
			history.MarkRunning(runs, state)
		}
	}
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
	return text
}

// lastRuns are the latest runs of a name in JSON.
type lastRuns struct {
	named
	Last    *pastRun `json:"last,omitempty"`
	Success *pastRun `json:"last_success,omitempty"`
	Failure *pastRun `json:"last_failure,omitempty"`
	Skipped *pastRun `json:"last_skipped,omitempty"`
}

// tellNames writes a line for each name that has a history.
func (a *app) tellNames(ctx context.Context, page *bytes.Buffer, l *padlock.Locker, log *history.Log) error {
	names, incomplete := log.Names(ctx, "")
	if len(names) == 0 && incomplete == nil {
		a.remark("", "no runs are recorded; padlock run --record records them")
	}
	now := time.Now()
	w := tabwriter.NewWriter(page, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for i, name := range names {
		s, err := log.Summary(ctx, name)
		if err != nil {
			incomplete = err
		}
		if s.Last != nil {
			last := []history.Run{*s.Last}
			markRunning(ctx, l, last)
			s.Last = &last[0]
		}
		if a.json {
			_ = a.print(page, newLastRuns(&s)) // the page takes everything
			continue
		}
		if i == 0 {
			fmt.Fprintln(w, "NAME\tLAST RUN\tLAST SUCCESS\tOUTCOME OF THE LAST RUN")
		}
		start, ended, how := "-", "-", "-"
		if s.Last != nil {
			start, how = clock(s.Last.Start, now), outcome(s.Last)
		} else if s.LastSkipped != nil { // the command of this name never ran
			how = outcome(s.LastSkipped)
		}
		if s.LastSuccess != nil {
			ended = clock(s.LastSuccess.End, now)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", show(name), start, ended, how)
	}
	return incomplete
}

func newLastRuns(s *history.Summary) lastRuns {
	one := func(r *history.Run) *pastRun {
		if r == nil {
			return nil
		}
		p := newPastRun(r)
		return &p
	}
	return lastRuns{newNamed(s.Name), one(s.Last), one(s.LastSuccess), one(s.LastFailure), one(s.LastSkipped)}
}
