package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/driver/fast"
)

// namedHolders is the largest number of slot holders that a message names.
const namedHolders = 3

// slotsText returns a text that names the holders of the slots.
func slotsText(name string, slots, weight int, held *padlock.HeldError, now time.Time) string {
	text := fmt.Sprintf("all %d slots of %s are held", slots, show(name))
	switch {
	case weight > 1:
		text = fmt.Sprintf("fewer than %d of the %d slots of %s are free; the others are held", weight, slots, show(name))
	case slots == 1:
		text = fmt.Sprintf("the only slot of %s is held", show(name))
	}
	var by []string
	holds := slices.CompactFunc(slices.Clone(held.Holds), func(a, b driver.Hold) bool { // with --weight a holder has several
		return !a.Cooling && !b.Cooling && holderName(a) == holderName(b)
	})
	for i, h := range holds {
		if i == namedHolders {
			by = append(by, fmt.Sprintf("%d more (padlock status --slots %d %s lists them)", len(holds)-i, slots, show(name)))
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
