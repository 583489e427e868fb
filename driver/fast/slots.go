package fast

import (
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// MaxSlots limits the permits of a name.
const MaxSlots = 1024

// A name with n slots can have n holders at the same time. Each holder has one of the n permits.
// Every permit is a lock of its own, so stores treat permits like other locks. The name of a permit
// is the name that the user gave, followed by slotMark and a number:
//
//	reports <US> slot:0     the permit 0 of "reports"
//	reports <US> slots:3    the gate: waiters for one of 3 permits of "reports" queue for this lock
//	reports <US> slots:0    the second gate of those that wait for several permits, whatever their n
//
// <US> stands for the byte 0x1F, the "unit separator" of ASCII.
//
// Callers with another n have another gate, so that they do not wait for each other without need.
// In a common queue, a caller with n = 5 might have to wait behind a caller with n = 2, although
// permit 4, which only the caller with n = 5 can use, is free.
const slotMark = "\x1fslot"

// SlotName returns the name under which stores keep a permit of a name, 0 to MaxSlots-1.
func SlotName(name string, slot int) string { return name + slotMark + ":" + strconv.Itoa(slot) }

// SlotGate returns the name of the lock for which callers queue while they wait for one of the
// permits 0 to n-1.
func SlotGate(name string, n int) string { return name + slotMark + "s:" + strconv.Itoa(n) }

// SplitSlot returns the arguments of the SlotName or SlotGate that made derived, with slot -1 for a
// gate. If neither made it, ok is false. A SlotTaker that spreads its locks over servers keeps all
// permits of a name, and their gates, on one server.
func SplitSlot(derived string) (name string, slot int, ok bool) {
	at := strings.LastIndexByte(derived, slotMark[0])
	if at <= 0 {
		return "", 0, false
	}
	name, rest := derived[:at], derived[at:]
	if digits, found := strings.CutPrefix(rest, slotMark+"s:"); found {
		if _, ok := slotNumber(digits); ok {
			return name, -1, true
		}
		return "", 0, false
	}
	digits, found := strings.CutPrefix(rest, slotMark+":")
	slot, ok = slotNumber(digits)
	if !found || !ok || slot == MaxSlots {
		return "", 0, false
	}
	return name, slot, true
}

// slotNumber reads a number from 0 to MaxSlots. It accepts only the digits that SlotName and
// SlotGate write.
func slotNumber(digits string) (int, bool) {
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n <= MaxSlots && digits == strconv.Itoa(n)
}

// CheckSlots checks that a name can have n slots.
func CheckSlots(name string, n int, g *driver.Guarantees) error {
	if n < 1 || n > MaxSlots {
		is := "is " + strconv.Itoa(n)
		if n < 1 {
			is = "is less than 1"
		}
		return invalid("Slots", is+"; 1 to "+strconv.Itoa(MaxSlots)+" are allowed")
	}
	most := driver.MaxName
	if g.MaxName > 0 {
		most = min(most, g.MaxName)
	}
	if most -= len(SlotGate("", MaxSlots)); len(name) > most {
		return invalid("name", "has "+strconv.Itoa(len(name))+" bytes, at most "+strconv.Itoa(most)+" are allowed with Slots")
	}
	return driver.CheckName(name, g)
}
