package command

import (
	"bytes"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/observe/history"
)

const historyLong = `history shows the last runs of NAME that "padlock run --record" recorded, the newest
first: when each began, how it ended, how long it took and waited, and where it ran.
The machines that skipped the same start are in the same line.

Without NAME it shows a line for every name: its last run, how long it took and usually
takes, and its last success. Names whose last run failed come first, then those that are
overdue: without a run for longer than usual. The end of a line says who holds it now.

--failed, --since and --host choose runs, and of each name the newest one that they
choose is shown. --failed alone shows the names whose last run failed or that are
overdue; with --since, those with any failed run since then.

Each store has its own history. padlock keeps 50 runs and 50 skipped runs of a name,
in the state directory of this user on this machine and, with a store in files, in
Redis or in SQL, in the store, so that all machines share the history. A run without
an end either holds the lock ("running"), or was killed together with padlock ("no end
recorded").

--overlaps answers whether two runs worked at once, between --since and --until. The
fences are the proof of the order, and a run is placed in the time of the store's clock,
so that differences of the hosts' clocks do not count. The exit status is 1 if it finds
an overlap.

--prometheus prints the time of the last success of every name, and other figures, in
the text format of Prometheus, for example for the textfile collector of node_exporter.

Exit status:
  0    done, even if there are no runs
  1    --overlaps: two runs worked at once
  64   the command line or the store's URL is wrong
  69   the store or a part of the history cannot be read; the rest is shown
  74   the output could not be written`

func (a *app) historyCommand() *cobra.Command {
	set := &past{}
	c := &cobra.Command{
		Use:   "history [FLAGS] [NAME]",
		Short: "Show the last runs of a name",
		Long:  historyLong,
		Example: `  padlock history
  padlock history --failed --since 12h
  padlock history --host web-3 -n 10 nightly-report
  padlock history --overlaps --since 02:00 --until 02:10 nightly-report
  padlock history --json nightly-report | jq 'select(.outcome != "success")'
  padlock history --prometheus > /var/lib/node_exporter/padlock_runs.new`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usage("one name at a time; see %s --help", c.CommandPath())
			case len(args) == 1 && set.prometheus:
				return usage("--prometheus prints all names, so it takes no NAME")
			case set.prometheus && *set != past{prometheus: true}:
				return usage("--prometheus prints all figures, so it takes no filter")
			case set.overlaps && (set.failed || set.host != "" || set.most != 0):
				return usage("--overlaps compares all runs: leave out --failed, --host and -n")
			case !set.overlaps && !set.until.IsZero():
				return usage("--until is for --overlaps")
			case len(args) == 1 && args[0] == "":
				return usage("the name of the lock is empty")
			case c.Flags().Changed("n") && set.most < 1:
				return usage("-n %d: give a number from 1", set.most)
			}
			return nil
		},
		ValidArgsFunction: a.completeRecorded,
		RunE: func(c *cobra.Command, args []string) error {
			return a.showHistory(c.Context(), strings.Join(args, ""), set)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&set.failed, "failed", false, "only runs that failed, and names that are overdue")
	c.Flags().Var(&set.since, "since", "only runs that began since then: `DURATION|TIME`, such as 12h, 2d, 22:00 or 2026-11-20")
	c.Flags().BoolVar(&set.overlaps, "overlaps", false, "answer whether two runs worked at once")
	c.Flags().Var(&set.until, "until", "with --overlaps: only until then, a time as for --since")
	c.Flags().StringVar(&set.host, "host", "", "only runs on `HOST`, even if they were skipped there")
	c.Flags().IntVarP(&set.most, "n", "n", 0, "at most `N` lines")
	c.Flags().BoolVar(&set.prometheus, "prometheus", false, "print figures of all names in the text format of Prometheus")
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
		if plain(name) { // other names would need quotes
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// showHistory shows the runs of a name. If the name is empty, it shows a line for each name. If the
// store cannot be opened, it shows only the history of this machine.
func (a *app) showHistory(ctx context.Context, name string, set *past) error {
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
	case set.prometheus:
		var jobs []history.Job
		jobs, incomplete = log.Jobs(ctx, "", history.Filter{}, nil)
		_ = history.WriteMetrics(&page, jobs) // a buffer takes everything
	case set.overlaps:
		incomplete = a.tellOverlaps(ctx, &page, l, log, name, set)
	case name == "":
		incomplete = a.tellJobs(ctx, &page, l, log, set)
	default:
		incomplete = a.tellRuns(ctx, &page, l, log, name, set)
	}
	if _, err := a.stdout.Write(page.Bytes()); err != nil {
		return err
	}
	if problem == nil && incomplete != nil {
		return fail(exitUnavailable, "incomplete", name, "there may be more runs than these, and some may be running: %s", reason(incomplete))
	}
	return problem
}
