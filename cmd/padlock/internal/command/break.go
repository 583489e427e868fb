package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/observe/sampler"
)

const breakLong = `break takes a lock away from its holder, or ends a cool-down. It does not stop the
holder: the holder works on until its next renewal finds that the lock is lost. So
first make sure that the holder is dead, or end it. Then the next waiter gets the
lock. With files, break ends cool-downs and locks of padlock acquire. A lock of
padlock run or of another process ends when its processes exit, and break names them.

break acts only on the hold that you have seen. Either pass --fence with the number
that padlock status shows: if somebody else holds the lock by now, its fence differs
and nothing happens (exit status 75). Or let break show the holder and ask you.
--yes skips the question and breaks whatever hold there is at that moment. Holders
other than padlock have no fence, so break cannot tell two of them apart.

--slot N breaks slot N of a name with slots (run --slots).

Exit status:
  0    the lock was broken, or it was free
  1    you did not say yes, so nothing was broken
  75   somebody else holds the lock by now
` + commonStatuses

// exitUnbroken means that the person who was asked did not say yes.
const exitUnbroken = 1

// broken is what break prints in JSON.
type broken struct {
	named
	Broken  bool           `json:"broken"`
	Slot    *int           `json:"slot,omitempty"`
	Fence   uint64         `json:"fence,omitempty"` // greater than the fences of the holds that were ended
	Holders []sampler.Hold `json:"holders"`         // the holders before the break
}

// breaking holds the flags of break.
type breaking struct {
	fence    uint64
	fenced   bool // --fence was given
	yes      bool
	slot     int                    // -1: the lock without slots
	question func(text string) bool // nil if there is no terminal
}

func (a *app) breakCommand() *cobra.Command {
	set := &breaking{}
	c := &cobra.Command{
		Use:   "break [FLAGS] NAME",
		Short: "Take a lock away from its holder",
		Long:  breakLong,
		Example: `  padlock status nightly-report
  padlock break --fence 1763600000123456 nightly-report
  padlock break nightly-report`,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE: func(c *cobra.Command, args []string) error {
			set.fenced = c.Flags().Changed("fence")
			if c.Flags().Changed("slot") && (set.slot < 0 || set.slot >= fast.MaxSlots) {
				return usage("--slot %d: the slots of a name are 0 to %d", set.slot, fast.MaxSlots-1)
			}
			if !a.json && isTerminal(os.Stdin) && isTerminal(os.Stderr) {
				set.question = asker(os.Stdin, os.Stderr)
			}
			return a.breakLock(c.Context(), set, args[0])
		},
	}
	c.Flags().SortFlags = false
	c.Flags().IntVar(&set.slot, "slot", -1, "break slot `N` of NAME")
	c.Flags().Lookup("slot").DefValue = "0" // there is no number in the help
	c.Flags().Uint64Var(&set.fence, "fence", 0, "break it only if its fence is `N`, as padlock status has shown")
	c.Flags().BoolVar(&set.yes, "yes", false, "do not ask")
	return c
}

// asker returns a function that asks a person. Only the whole word "yes" counts as consent.
func asker(in io.Reader, out io.Writer) func(text string) bool {
	return func(text string) bool {
		fmt.Fprint(out, text)
		line, _ := bufio.NewReader(in).ReadString('\n')
		return strings.TrimSpace(line) == "yes"
	}
}

func (a *app) breakLock(ctx context.Context, set *breaking, name string) error {
	l, err := a.looker(ctx, name)
	if err != nil {
		return err
	}
	defer a.close(l)
	out := broken{named: newNamed(name)}
	if set.slot >= 0 {
		out.Slot, name = &set.slot, fast.SlotName(name, set.slot)
	}
	s, err := sampler.Look(ctx, l, name, 0)
	if err != nil {
		return a.holdersUnknown(out.Name, err)
	}
	out.Holders = append([]sampler.Hold{}, s.Holds...) // in JSON, a list even if it is empty
	switch {
	case len(s.Holds) == 0:
		return a.tellBroken(out, a.nothingHeld(ctx, l, name))
	case set.fenced && s.Fence != set.fence:
		return a.notThatOne(&s)
	case a.cannotBreak(&s):
		return a.unbreakable(&s)
	}
	if err := a.confirm(set, &s); err != nil {
		return err
	}
	fence, err := l.Break(ctx, name, s.Fence)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return a.unbreakable(&s)
	case errors.Is(err, padlock.ErrLost) && !errors.Is(err, padlock.ErrUncertain):
		return a.changedSince(ctx, l, out, name)
	case err != nil:
		return a.unsuccessful(withoutSlot(name), "broken", err)
	}
	out.Broken, out.Fence = true, fence
	return a.tellBroken(out, title(name)+" is broken: it was "+sentence(s.Holds[0].Hold, time.Now()))
}

// nothingHeld says that there is nothing to break. If slots of the name are held, it says how to
// break one of them.
func (a *app) nothingHeld(ctx context.Context, l *padlock.Locker, name string) string {
	text := title(name) + " is free; there is nothing to break"
	n, err := sampler.LookAll(ctx, l, name, a.slotPatience)
	switch held := n.HeldSlots(); {
	case err != nil:
		return text
	case held > 0:
		return fmt.Sprintf("%s, but %s held; to break one: padlock break --slot N %s", text, several(held, "slot is", "slots are"), show(name))
	case n.Unlisted != nil:
		return text + ", but slots of it may be held: " + reason(n.Unlisted)
	}
	return text
}

// confirm asks the user about the hold that would be broken.
func (a *app) confirm(set *breaking, s *sampler.Name) error {
	switch {
	case set.fenced || set.yes:
		return nil
	case set.question == nil && s.Fence == 0:
		return usage("%s is %s; there is no terminal to ask on; to break it: padlock break --yes %s", title(s.Name), sentence(s.Holds[0].Hold, time.Now()), operands(s.Name))
	case set.question == nil:
		return usage("%s is %s; there is no terminal to ask on; to break it: padlock break --fence %d %s", title(s.Name), sentence(s.Holds[0].Hold, time.Now()), s.Fence, operands(s.Name))
	}
	text := strings.Join(lines(s, time.Now()), "\n") +
		"\nBreaking it does not stop the holder. Type yes to break it: "
	if !set.question(text) {
		return fail(exitUnbroken, "unbroken", withoutSlot(s.Name), "nothing was broken")
	}
	return nil
}

func (a *app) tellBroken(out broken, text string) error {
	if a.json {
		return a.print(a.stdout, out)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// changedSince is called if the hold ended after the command "padlock break" had looked at it, but
// before the command could break it. The name may be free now, or somebody else may hold it.
func (a *app) changedSince(ctx context.Context, l *padlock.Locker, out broken, name string) error {
	s, err := sampler.Look(ctx, l, name, 0)
	switch {
	case err != nil:
		return a.holdersUnknown(out.Name, err)
	case len(s.Holds) == 0:
		return a.tellBroken(out, a.nothingHeld(ctx, l, name))
	}
	return a.notThatOne(&s)
}

// notThatOne returns the failure of padlock break if the present hold is not the one that the user
// saw.
func (a *app) notThatOne(s *sampler.Name) *failure {
	name, now := withoutSlot(s.Name), time.Now()
	if s.Fence == 0 {
		return fail(exitHeld, "changed", name, "%s is %s; this hold has no fence to compare, so nothing was broken (to break whatever hold there is: padlock break --yes %s)", title(s.Name), sentence(s.Holds[0].Hold, now), operands(s.Name))
	}
	return fail(exitHeld, "changed", name, "%s has changed hands: its fence is %d now; nothing was broken (see padlock status %s)", title(s.Name), s.Fence, show(name))
}

// cannotBreak reports whether nobody but the holder can end the hold. Break would say so too, but
// only after the user was asked.
func (a *app) cannotBreak(s *sampler.Name) bool {
	if _, ok := driver.As[driver.Admin](a.opened); !ok || a.opened.Guarantees().Lacks&driver.AbilityBreak != 0 {
		return true
	}
	h := s.Holds[0]
	return a.opened.Guarantees().Bound == driver.BoundToProcess && !h.Cooling && h.Until.IsZero() // a file lock without a lease
}

// unbreakable returns the failure for a hold that the command "break" cannot end. The message says
// how the hold ends.
func (a *app) unbreakable(s *sampler.Name) *failure {
	var how string
	switch a.opened.Guarantees().Bound {
	case driver.BoundToProcess:
		how = "the lock ends only when its processes end"
	case driver.BoundToConnection:
		how = "the lock ends only when its holder's connection to the server ends"
	default:
		how = "this store breaks no locks; the lease ends by itself" + endText(s.Holds[0].Until, time.Now())
	}
	var pids []string
	for _, h := range s.Holds {
		switch {
		case h.Cooling:
			how = "a cool-down ends by itself" + endText(h.Until, time.Now())
		case h.PID != 0:
			pids = append(pids, strconv.Itoa(h.PID))
		}
	}
	if len(pids) > 0 {
		how += "; end process " + strings.Join(pids, ", ")
	}
	return fail(exitUsage, "unsupported", withoutSlot(s.Name), "%s cannot be broken: %s", title(s.Name), how)
}
