package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
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

// state is a lock in JSON.
type state struct {
	named
	Held    bool   `json:"held"`
	Holders []hold `json:"holders"`
	Fence   uint64 `json:"fence,omitempty"`
	Waiters *int   `json:"waiters,omitempty"` // absent if unknown
	Path    string `json:"path,omitempty"`

	Slots     []slotState `json:"slots,omitempty"`         // those that are held
	SlotCount int         `json:"slot_count,omitempty"`    // with --slots
	ForSlots  *int        `json:"slot_waiters,omitempty"`  // callers that wait for a slot; absent if no slot is known
	Unlisted  string      `json:"slots_unknown,omitempty"` // if the list may be incomplete, the reason
}

// slotState is a slot in JSON.
type slotState struct {
	Slot    int    `json:"slot"`
	Holders []hold `json:"holders"`
	Fence   uint64 `json:"fence,omitempty"`
	Path    string `json:"path,omitempty"`
}

func newState(s *padlock.State) state {
	out := state{named: newNamed(s.Name), Held: len(s.Holds) > 0, Holders: []hold{}, Fence: s.Fence, Path: s.Path}
	for _, h := range s.Holds {
		out.Holders = append(out.Holders, describe(h))
	}
	if s.Waiters >= 0 {
		out.Waiters = &s.Waiters
	}
	return out
}

// newSlotted describes a name with its slots. With --slots, "held" means that all slots are held.
func newSlotted(f *slotted) state {
	out := newState(&f.State)
	out.SlotCount, out.Unlisted = f.count, f.unlisted
	if f.count > 0 {
		out.Held, out.Waiters = f.allTaken(), nil
	}
	if f.count > 0 || len(f.slots) > 0 || f.waiting > 0 {
		out.ForSlots = &f.waiting
	}
	for _, s := range f.slots {
		if len(s.Holds) == 0 {
			continue
		}
		one := newState(&s.State)
		out.Slots = append(out.Slots, slotState{s.number, one.Holders, s.Fence, s.Path})
	}
	return out
}

func (a *app) showStatus(ctx context.Context, slots int, name string) error {
	l, err := a.looker(ctx, name)
	if err != nil {
		return err
	}
	defer a.close(l)
	f, err := lookUp(ctx, l, name, slots)
	if err != nil {
		return a.holdersUnknown(name, err)
	}
	if f.blocked() {
		a.status = exitHeld
	}
	if a.json {
		return a.print(a.stdout, newSlotted(&f))
	}
	_, err = fmt.Fprintln(a.stdout, strings.Join(f.lines(time.Now()), "\n"))
	return err
}

// lookUp returns the state of a name. If the number of slots is not 0, it returns the state of
// these slots instead.
func lookUp(ctx context.Context, l *padlock.Locker, name string, slots int) (slotted, error) {
	if slots > 0 {
		return inspectSlots(ctx, l, name, slots)
	}
	return inspect(ctx, l, name)
}

// lines describes a name and its slots for a person.
func (f *slotted) lines(now time.Time) []string {
	out := f.describeKnown(now)
	switch {
	case f.guard: // it concerns every name, and most have no slots
		out = append(out, "  new locks are refused: "+f.unlisted)
	case f.unlisted != "":
		out = append(out, fmt.Sprintf("  there may be more slots: %s; padlock status --slots N %s asks for each", f.unlisted, show(f.Name)))
	}
	return out
}

// describeKnown describes the known facts about a name and its slots.
func (f *slotted) describeKnown(now time.Time) []string {
	held := fmt.Sprintf("%s: %s held", show(f.Name), several(f.takenSlots(), "slot is", "slots are"))
	var out []string
	switch {
	case f.count > 0:
		out = append(out, fmt.Sprintf("%s: %d of %d slots are held", show(f.Name), f.takenSlots(), f.count))
	case len(f.slots) == 0 && f.waiting == 0:
		return lines(&f.State, now)
	case len(f.Holds) == 0:
		out = append(out, held+"; without --slots, "+show(f.Name)+" is free")
	default:
		out = append(lines(&f.State, now), held)
	}
	for _, s := range f.slots {
		for _, h := range s.Holds {
			line := fmt.Sprintf("  slot %d is %s", s.number, sentence(h, now))
			if s.Fence > 0 {
				line += fmt.Sprintf("; fence %d", s.Fence)
			}
			out = append(out, line)
		}
	}
	if f.waiting > 0 {
		out = append(out, fmt.Sprintf("  waiting for a slot: %d", f.waiting))
	}
	return out
}

func several(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// holdersUnknown returns the failure of a verb that could not find out who holds a lock. It is
// never a usage error, even if the store can never answer that question.
func (a *app) holdersUnknown(name string, err error) *failure {
	if errors.Is(err, errors.ErrUnsupported) {
		return fail(exitUnavailable, "unknown", name, "%s cannot tell who holds a lock: %s", a.place(), reason(err))
	}
	return a.explain(name, err)
}

// lines describes a lock for a person.
func lines(s *padlock.State, now time.Time) []string {
	var out []string
	for _, h := range s.Holds {
		out = append(out, title(s.Name)+" is "+sentence(h, now))
	}
	if len(out) == 0 {
		out = append(out, title(s.Name)+" is free")
	}
	if s.Waiters > 0 {
		out = append(out, fmt.Sprintf("  waiting: %d", s.Waiters))
	}
	if s.Fence > 0 {
		out = append(out, fmt.Sprintf("  fence:   %d", s.Fence))
	}
	if s.Path != "" {
		out = append(out, "  file:    "+show(s.Path))
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
	if len(args) > 0 {
		return usage("%s takes a key and not a name; see %s --help", c.CommandPath(), c.CommandPath())
	}
	return nil
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
