package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// slotted is a name with its slots. The store keeps each slot under a name of its own. It keeps the
// waiters for the slots under one more name; see driver.SlotName.
type slotted struct {
	padlock.State        // the lock without slots
	slots         []slot // sorted; only the held slots if count is 0, otherwise all
	count         int    // the number of slots that --slots gives; otherwise 0
	waiting       int    // callers that wait for a slot
	unlisted      string // if the list may be incomplete, the reason; otherwise ""
	guard         bool   // that reason is the restart guard
}

// slot is a slot of a name.
type slot struct {
	padlock.State
	number int
}

// fold puts the slots of each name together. The result is sorted by name.
func fold(states []padlock.State) []slotted {
	byName := map[string]*slotted{}
	for _, s := range states {
		name, number, isSlot := driver.SplitSlot(s.Name)
		if !isSlot {
			name = s.Name
		}
		f := byName[name]
		if f == nil {
			f = &slotted{State: padlock.State{Name: name}}
			byName[name] = f
		}
		switch {
		case !isSlot:
			f.State = s
		case number < 0: // this is the gate, a lock for which callers queue; the gate's holder waits for a slot too
			f.waiting += len(s.Holds) + max(s.Waiters, 0)
		default:
			f.slots = append(f.slots, slot{s, number})
		}
	}
	var all []slotted
	for _, f := range byName {
		sort.Slice(f.slots, func(i, j int) bool { return f.slots[i].number < f.slots[j].number })
		f.slots = slices.CompactFunc(f.slots, func(x, y slot) bool { return x.number == y.number })
		all = append(all, *f)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// inspectSlots asks the store for each of the n slots of a name. It also works with a store that
// cannot list names.
func inspectSlots(ctx context.Context, l *padlock.Locker, name string, n int) (slotted, error) {
	f := slotted{State: padlock.State{Name: name, Waiters: -1}, count: n}
	for i := range n {
		s, err := l.Inspect(ctx, driver.SlotName(name, i))
		if err != nil {
			return f, err
		}
		f.slots = append(f.slots, slot{s, i})
	}
	s, err := l.Inspect(ctx, driver.SlotGate(name, n))
	if err == nil {
		f.waiting = len(s.Holds) + max(s.Waiters, 0)
		f.Waiters = f.waiting
	}
	return f, err
}

// Some stores must read every name to find those with a prefix.
const listPatience = 2 * time.Second // the longest time for listing names

// slotPatience is the longest time for listing the slots of a name. It is short, because the caller
// has asked for the name, which may have no slots. Tests set it.
var slotPatience = 300 * time.Millisecond

// inspect returns the state of a name. If the store can list names, the result includes the held
// slots of the name. If the slots cannot be listed, inspect does not fail, because the state of the
// name itself is known.
func inspect(ctx context.Context, l *padlock.Locker, name string) (slotted, error) {
	s, err := l.Inspect(ctx, name)
	f := slotted{State: s}
	if err != nil {
		return f, err
	}
	listing, cancel := context.WithTimeout(ctx, slotPatience)
	defer cancel()
	permits := strings.TrimSuffix(driver.SlotName(name, 0), ":0") // the gates begin like this, too
	states, err := l.List(listing, permits)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return f, err
	case reason(err) == errors.ErrUnsupported.Error(): // the store lists no names
		return f, nil
	case listing.Err() != nil:
		f.unlisted = fmt.Sprintf("the store could not list them within %s", span(slotPatience))
	default:
		f.unlisted, f.guard = reason(err), guarded(err)
	}
	for _, with := range fold(states) {
		if with.Name == name {
			f.slots, f.waiting = with.slots, with.waiting
		}
	}
	return f, nil
}

// allHolds returns the holders of all slots.
func (f *slotted) allHolds() []padlock.Hold {
	var all []padlock.Hold
	for _, s := range f.slots {
		all = append(all, s.Holds...)
	}
	return all
}

// takenSlots returns how many slots are held.
func (f *slotted) takenSlots() int {
	n := 0
	for _, s := range f.slots {
		if len(s.Holds) > 0 {
			n++
		}
	}
	return n
}

// inFile reports whether a file carries the lock or one of the slots.
func (f *slotted) inFile() bool {
	return f.Path != "" || slices.ContainsFunc(f.slots, func(s slot) bool { return s.Path != "" })
}

// allTaken reports whether all slots are held. The option --slots gives their number; without it,
// allTaken returns false.
func (f *slotted) allTaken() bool { return f.count > 0 && f.takenSlots() == f.count }

// heldError names the holders for which a caller would have to wait.
func (f *slotted) heldError() *padlock.HeldError {
	if f.count > 0 {
		return &padlock.HeldError{Holds: f.allHolds()}
	}
	return &padlock.HeldError{Holds: f.Holds}
}

// blocked reports whether a caller would have to wait: with --slots, for a slot; without it, for
// the lock.
func (f *slotted) blocked() bool {
	if f.count > 0 {
		return f.allTaken()
	}
	return len(f.Holds) > 0
}

// slotsFailure returns the failure that names the holders of the slots.
func slotsFailure(name string, slots int, held *padlock.HeldError) *failure {
	f := heldFailure(name, held)
	f.note.Message = slotsText(name, slots, held, time.Now())
	return f
}

// namedHolders is the largest number of slot holders that a message names.
const namedHolders = 3

// slotsText returns a text that names the holders of the slots.
func slotsText(name string, slots int, held *padlock.HeldError, now time.Time) string {
	text := fmt.Sprintf("all %d slots of %s are held", slots, show(name))
	if slots == 1 {
		text = fmt.Sprintf("the only slot of %s is held", show(name))
	}
	var by []string
	for i, h := range held.Holds {
		if i == namedHolders {
			by = append(by, fmt.Sprintf("%d more (padlock status --slots %d %s lists them)", len(held.Holds)-i, slots, show(name)))
			break
		}
		if h.Cooling {
			by = append(by, "a cool-down"+endText(h.Until, now))
		} else {
			by = append(by, holderName(h))
		}
	}
	switch n := len(by); n {
	case 0:
		return text + endText(held.Until, now)
	case 1:
		return text + " by " + by[0]
	default:
		return text + " by " + strings.Join(by[:n-1], ", ") + " and " + by[n-1]
	}
}

// slotOf returns the number of the lock's slot for JSON, or nil.
func slotOf(lock *padlock.Lock) *int {
	if n := lock.Slot(); n >= 0 {
		return &n
	}
	return nil
}

// withoutSlot returns the name that the user gave: without the suffix of driver.SlotName.
func withoutSlot(name string) string {
	if base, _, ok := driver.SplitSlot(name); ok {
		return base
	}
	return name
}

// title describes a name in messages. The name may be that of a slot.
func title(name string) string {
	if base, number, ok := driver.SplitSlot(name); ok && number >= 0 {
		return fmt.Sprintf("slot %d of %s", number, show(base))
	}
	return show(name)
}

// operands returns the arguments that select a name or a slot. They belong at the end of a command
// line.
func operands(name string) string {
	if base, number, ok := driver.SplitSlot(name); ok && number >= 0 {
		return fmt.Sprintf("--slot %d %s", number, show(base))
	}
	return show(name)
}
