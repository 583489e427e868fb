package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

func (a *app) lsCommand() *cobra.Command {
	prometheus := false
	c := &cobra.Command{
		Use:   "ls [FLAGS] [PREFIX]",
		Short: "List the locks that are held",
		Long: `ls lists the locks that are held, are cooling down or have waiters, sorted by name.
With PREFIX it lists only names that begin with PREFIX. If there are none it prints
nothing and exits with 0. A name with slots (run --slots) has a line for each slot that
is held; WAITING counts the callers that wait for a slot. With --json it prints one
object per line. If the store knows only some of the locks, ls prints these, says why
and exits with 69.

--prometheus prints whether each name is held and how many callers wait for it, in the
text format of Prometheus, for example for the textfile collector of node_exporter.`,
		Example: `  padlock ls
  padlock ls deploy/
  padlock ls --json | jq -r .name
  padlock ls --prometheus >/var/lib/node_exporter/padlock_locks.new`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usage("one prefix at a time; see %s --help", c.CommandPath())
			case a.json && prometheus:
				return usage("--prometheus and --json contradict each other; use one of them")
			}
			return nil
		},
		ValidArgsFunction: a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			return a.list(c.Context(), strings.Join(args, ""), prometheus)
		},
	}
	c.Flags().BoolVar(&prometheus, "prometheus", false, "print figures in the text format of Prometheus")
	return c
}

func (a *app) list(ctx context.Context, prefix string, prometheus bool) error {
	l, err := a.looker(ctx, "")
	if err != nil {
		return err
	}
	defer a.close(l)
	states, incomplete := l.List(ctx, prefix)
	names := fold(states)
	switch {
	case len(names) == 0 && incomplete != nil:
		return a.holdersUnknown("", incomplete)
	case a.json:
		for i := range names {
			if err := a.print(a.stdout, newSlotted(&names[i])); err != nil {
				return err
			}
		}
	case prometheus:
		if err := writeFigures(a.stdout, names, a.placeLabel()); err != nil {
			return err
		}
	default:
		if err := a.table(names); err != nil {
			return err
		}
	}
	if incomplete != nil {
		return fail(exitUnavailable, "incomplete", "", "%s may have more locks than these: %s", a.place(), reason(incomplete))
	}
	return nil
}

// table prints a line for each hold.
func (a *app) table(names []slotted) error {
	if len(names) == 0 {
		a.remark("", "no locks are held")
		return nil
	}
	now := time.Now()
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	files := slices.ContainsFunc(names, func(f slotted) bool { return f.inFile() })
	longest := longestAtTerminal()
	line := func(name string, s *padlock.State, by string, columns ...string) {
		columns = append([]string{fit(show(name), longest), fit(by, longest)}, columns...)
		columns = append(columns, count(s.Waiters), number(s.Fence))
		if files {
			columns = append(columns, show(s.Path))
		}
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	heads := "NAME\tHOLDER\tMODE\tSINCE\tUNTIL\tWAITING\tFENCE"
	if files {
		heads += "\tFILE"
	}
	fmt.Fprintln(w, heads)
	for i := range names {
		f := &names[i]
		for _, h := range f.Holds {
			line(f.Name, &f.State, holderName(h), mode(h), moment(h.Since, now), moment(endOfHold(h), now))
		}
		for _, s := range f.slots {
			s.Waiters = f.waiting
			for _, h := range s.Holds {
				line(f.Name, &s.State, holderName(h), slotMode(s.number, h), moment(h.Since, now), moment(endOfHold(h), now))
			}
		}
		if len(f.Holds) == 0 && f.takenSlots() == 0 {
			f.Waiters += f.waiting
			line(f.Name, &f.State, "-", "free", "-", "-")
		}
	}
	return w.Flush()
}

// longestAtTerminal returns the greatest number of columns of a name in a table, or 0 for no limit.
// A person at a terminal reads rows, and a pipe gets the whole names.
func longestAtTerminal() int {
	if !isTerminal(os.Stdout) {
		return 0
	}
	return 40
}

// fit cuts a text to a number of columns, unless that is 0.
func fit(text string, columns int) string {
	if columns == 0 {
		return text
	}
	return ansi.Truncate(text, columns, "…")
}

// endOfHold returns the planned end of a hold, or else the end of its lease.
func endOfHold(h padlock.Hold) time.Time {
	if !h.PlannedEnd.IsZero() {
		return h.PlannedEnd
	}
	return h.Until
}

func slotMode(n int, h padlock.Hold) string {
	if h.Cooling {
		return fmt.Sprintf("slot %d cooling", n)
	}
	return fmt.Sprintf("slot %d", n)
}

func mode(h padlock.Hold) string {
	switch {
	case h.Cooling:
		return "cooling"
	case h.Shared:
		return "shared"
	}
	return "exclusive"
}

func moment(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return clock(t, now)
}

func count(n int) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
