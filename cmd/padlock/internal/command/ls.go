package command

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

	"github.com/padlock-go/padlock/observe/sampler"
)

func (a *app) lsCommand() *cobra.Command {
	var host string
	c := &cobra.Command{
		Use:   "ls [FLAGS] [PREFIX]",
		Short: "List the locks that are held",
		Long: `ls lists the locks that are held, are cooling down or have waiters, sorted by name.
With PREFIX it lists only names that begin with PREFIX. If there are none it prints
nothing and exits with 0. A name with slots (run --slots) has a line for each slot that
is held; WAITING counts the callers that wait for a slot. With --host it lists what the
processes of one host hold, for example before it is shut down. With --json it prints one
object per line. If the store knows only some of the locks, ls prints these, says why
and exits with 69.`,
		Example: `  padlock ls
  padlock ls deploy/
  padlock ls --host .
  padlock ls --json | jq -r .name`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("one prefix at a time; see %s --help", c.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: a.completeName,
		RunE:              func(c *cobra.Command, args []string) error { return a.list(c.Context(), strings.Join(args, ""), host) },
	}
	c.Flags().StringVar(&host, "host", "", "only what processes of `HOST` hold; a dot is this host")
	return c
}

// onHost returns the names of which a process of host holds the lock or a slot, with these holds only.
func onHost(names []sampler.Name, host string) (held []sampler.Name) {
	for _, n := range names {
		n.Holds = slices.DeleteFunc(n.Holds, func(h sampler.Hold) bool { return h.Host != host })
		if len(n.Holds) > 0 {
			held = append(held, n)
		}
	}
	return held
}

func (a *app) list(ctx context.Context, prefix, host string) error {
	l, err := a.looker(ctx, "")
	if err != nil {
		return err
	}
	defer a.close(l)
	states, incomplete := l.List(ctx, prefix)
	names := sampler.DescribeAll(states, time.Now())
	if host == "." {
		host, _ = os.Hostname()
	}
	if host != "" {
		names = onHost(names, host)
	}
	switch {
	case len(names) == 0 && incomplete != nil:
		return a.holdersUnknown("", incomplete)
	case a.json:
		for i := range names {
			if err := a.print(a.stdout, names[i]); err != nil {
				return err
			}
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
func (a *app) table(names []sampler.Name) error {
	if len(names) == 0 {
		a.remark("", "no locks are held")
		return nil
	}
	now := time.Now()
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	files := slices.ContainsFunc(names, inFile)
	longest := longestAtTerminal()
	line := func(columns ...string) {
		if !files {
			columns = columns[:len(columns)-1]
		}
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	line("NAME", "HOLDER", "MODE", "SINCE", "UNTIL", "WAITING", "FENCE", "FILE")
	for i := range names {
		n := &names[i]
		name := fit(show(n.Name), longest)
		if len(n.Holds) == 0 {
			line(name, "-", "free", "-", "-", count(n.Waiters), number(n.Fence), show(n.Path))
		}
		for _, h := range n.Holds {
			waiting, fence := n.SlotWaiters, h.Fence
			if h.Foreign {
				fence = 0 // it is that of an earlier holder
			}
			if h.Slot < 0 {
				waiting = n.Waiters - n.SlotWaiters
			}
			line(name, fit(holderName(h.Hold), longest), h.Mode(), moment(h.Since, now), moment(endOfHold(h.Hold), now), count(waiting), number(fence), show(h.Path))
		}
	}
	return w.Flush()
}

// inFile reports whether a file carries the lock or one of its slots.
func inFile(n sampler.Name) bool {
	return n.Path != "" || slices.ContainsFunc(n.Holds, func(h sampler.Hold) bool { return h.Path != "" })
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
