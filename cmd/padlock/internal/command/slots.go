package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver/fast"
)

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

// withoutSlot returns the name that the user gave: without the suffix of fast.SlotName.
func withoutSlot(name string) string {
	if base, _, ok := fast.SplitSlot(name); ok {
		return base
	}
	return name
}

// operands returns the arguments that select a name or a slot. They belong at the end of a command
// line.
func operands(name string) string {
	if base, number, ok := fast.SplitSlot(name); ok && number >= 0 {
		return fmt.Sprintf("--slot %d %s", number, show(base))
	}
	return show(name)
}
