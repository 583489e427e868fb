package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock/observe/sampler"
)

const statusLong = `status shows who holds the lock NAME, since when and until when. It does not touch
the lock.

The exit status is the one that "padlock run -n NAME" would have: 0 if the lock is
free, 75 if it is held or cooling down, 69 if the store cannot tell. The answer may
be out of date when you read it. To do something only while a lock is free, use
run -n.

Slots of the name (run --slots) are listed too, if the store can list names. status
does not wait long for that list: if the store cannot list all slots within 0.3 seconds,
a line says so. With --slots N, status asks for slots 0 to N-1, on every store, and
exits with 75 if all of them are held.`

func (a *app) statusCommand() *cobra.Command {
	var slots slotCount
	c := &cobra.Command{
		Use:   "status [FLAGS] NAME",
		Short: "Show who holds a lock",
		Long:  statusLong,
		Example: `  padlock status nightly-report
  padlock status --json nightly-report | jq .holders
  padlock status --store file:///var/lib/shared-locks deploy`,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE:                  func(c *cobra.Command, args []string) error { return a.showStatus(c.Context(), int(slots), args[0]) },
	}
	c.Flags().Var(&slots, "slots", "show the slots 0 to `N`-1 of NAME, as for run --slots N")
	return c
}

func (a *app) showStatus(ctx context.Context, slots int, name string) error {
	l, err := a.looker(ctx, name)
	if err != nil {
		return err
	}
	defer a.close(l)
	n, err := sampler.Name{}, error(nil)
	if slots > 0 {
		n, err = sampler.Look(ctx, l, name, slots)
	} else {
		n, err = sampler.LookAll(ctx, l, name, a.slotPatience)
	}
	if err != nil {
		return a.holdersUnknown(name, err)
	}
	if len(n.Blocking(slots)) > 0 {
		a.status = exitHeld
	}
	if a.json {
		if n.Unlisted != nil {
			n.Unlisted = errors.New(reason(n.Unlisted))
		}
		return a.print(a.stdout, n)
	}
	_, err = fmt.Fprintln(a.stdout, strings.Join(statusLines(&n, time.Now()), "\n"))
	return err
}

// statusLines describes a name and its slots for a person.
func statusLines(n *sampler.Name, now time.Time) []string {
	held := fmt.Sprintf("%s: %s held", show(n.Name), several(n.HeldSlots(), "slot is", "slots are"))
	var out []string
	switch {
	case n.Slots > 0:
		out = append(out, fmt.Sprintf("%s: %d of %d slots are held", show(n.Name), n.HeldSlots(), n.Slots))
	case n.HeldSlots() == 0 && n.SlotWaiters == 0:
		out = lines(n, now)
	case len(n.Blocking(0)) == 0:
		out = append(out, held+"; without --slots, "+show(n.Name)+" is free")
	default:
		out = append(lines(n, now), held)
	}
	for _, h := range n.Holds {
		if h.Slot < 0 {
			continue
		}
		line := fmt.Sprintf("  slot %d is %s", h.Slot, sentence(h.Hold, now))
		if h.Fence > 0 && !h.Foreign {
			line += fmt.Sprintf("; fence %d", h.Fence)
		}
		out = append(out, line)
	}
	if n.SlotWaiters > 0 {
		out = append(out, fmt.Sprintf("  waiting for a slot: %d", n.SlotWaiters))
	}
	switch {
	case guarded(n.Unlisted): // it concerns every name, and most have no slots
		out = append(out, "  new locks are refused: "+reason(n.Unlisted))
	case n.Unlisted != nil:
		out = append(out, fmt.Sprintf("  there may be more slots: %s; padlock status --slots N %s asks for each", reason(n.Unlisted), show(n.Name)))
	}
	return out
}

// holdersUnknown returns the failure of a verb that could not find out who holds a lock. It is
// never a usage error, even if the store can never answer that question.
func (a *app) holdersUnknown(name string, err error) *failure {
	if errors.Is(err, errors.ErrUnsupported) {
		return fail(exitUnavailable, "unknown", name, "%s cannot tell who holds a lock: %s", a.place(), reason(err))
	}
	return a.explain(name, err)
}

// lines describes a lock, without slots, for a person.
func lines(n *sampler.Name, now time.Time) []string {
	var out []string
	for _, h := range n.Blocking(0) {
		out = append(out, title(n.Name)+" is "+sentence(h.Hold, now))
	}
	if len(out) == 0 {
		out = append(out, title(n.Name)+" is free")
	}
	if q := n.Asked; q != nil {
		out = append(out, "  asked:   "+askedText(q, now))
	}
	if waiting := n.Waiters - n.SlotWaiters; waiting > 0 {
		out = append(out, fmt.Sprintf("  waiting: %d", waiting))
	}
	if holds := n.Blocking(0); n.Fence > 0 && len(holds) > 0 && holds[0].Foreign {
		out = append(out, fmt.Sprintf("  fence:   %d, of an earlier holder: this one has none", n.Fence))
	} else if n.Fence > 0 {
		out = append(out, fmt.Sprintf("  fence:   %d", n.Fence))
	}
	if n.Path != "" {
		out = append(out, "  file:    "+show(n.Path))
	}
	return out
}

// oneName requires exactly one argument, the name of a lock.
func oneName(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return usage("the name of the lock is missing; see %s --help", c.CommandPath())
	case args[0] == "":
		return usage("the name of the lock is empty; see %s --help", c.CommandPath())
	case len(args) > 1:
		return usage("one name at a time; see %s --help", c.CommandPath())
	}
	return nil
}

// onlyKey returns an error if there are arguments. The command takes its key from a flag or the
// environment, so an argument is a mistake.
func onlyKey(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case strings.HasPrefix(args[0], "padlock1."):
		return usage("%s reads the key from a file or from standard input: every user of this machine can see a command line; see %s --help", c.CommandPath(), c.CommandPath())
	default:
		return usage("%s takes a key and not a name; see %s --help", c.CommandPath(), c.CommandPath())
	}
}

// oneURL accepts one argument or none. The argument is the URL of the store, like that of --store.
func (a *app) oneURL(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return usage("one URL at a time; see %s --help", c.CommandPath())
	case args[0] == "":
		return usage("the URL of the store is empty; see %s --help", c.CommandPath())
	}
	a.storeURL = args[0]
	return nil
}

// noArgs requires that there are no arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments; see %s --help", c.CommandPath(), c.CommandPath())
	}
	return nil
}
