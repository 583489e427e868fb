package driver

import (
	"strconv"
	"strings"
)

// A name with n slots can have n holders at the same time. Each holder has one of the n permits.
// Every permit is a lock of its own, so stores treat permits like other locks. The name of a permit
// is the name that the user gave, followed by slotMark and a number:
//
//	reports <US> slot:0     the permit 0 of "reports"
//	reports <US> slots:3    the gate: waiters for one of 3 permits of "reports" queue for this lock
//
// <US> stands for the byte 0x1F, the "unit separator" of ASCII.
const slotMark = "\x1fslot"

// MaxSlots is the greatest number of slots that a name can have.
const MaxSlots = 1024

// maxSlotSuffix is the length of the longest text that is added to a name for a slot.
const maxSlotSuffix = len(slotMark + "s:1024")

// SlotName returns the name under which stores keep one permit of a name with slots. The permits
// have the numbers 0 to MaxSlots-1. The result is longer than the name by at most 10 bytes.
func SlotName(name string, slot int) string {
	var room [slotRoom]byte
	return string(AppendSlotName(room[:0], name, slot))
}

// slotRoom is the length of the array in which SlotName and SlotGate build their result. Most
// results fit into it. Appending to an array takes half the time of adding strings.
const slotRoom = 96

// AppendSlotName appends SlotName(name, slot) to b. It allocates only if b is too short.
func AppendSlotName(b []byte, name string, slot int) []byte {
	b = append(append(b, name...), slotMark+":"...)
	return strconv.AppendInt(b, int64(slot), 10)
}

// SlotGate returns the name of the gate for n permits of a name. The gate is the lock for which
// callers queue while they wait for one of the permits 0 to n-1. Callers with another n have
// another gate, so that they do not wait for each other without need. In a common queue, a caller
// with n = 5 might have to wait behind a caller with n = 2, although permit 4, which only the
// caller with n = 5 can use, is free.
func SlotGate(name string, n int) string {
	var room [slotRoom]byte
	return string(AppendSlotGate(room[:0], name, n))
}

// AppendSlotGate appends SlotGate(name, n) to b. It allocates only if b is too short.
func AppendSlotGate(b []byte, name string, n int) []byte {
	b = append(append(b, name...), slotMark+"s:"...)
	return strconv.AppendInt(b, int64(n), 10)
}

// SplitSlot returns the name and the permit from which SlotName or SlotGate made the derived name.
// For a gate, slot is -1. If the derived name was made by neither of them, ok is false.
//
// A store that spreads its locks over several servers must keep all permits of a name, and their
// gates, on one server.
func SplitSlot(derived string) (name string, slot int, ok bool) {
	at := strings.LastIndexByte(derived, slotMark[0])
	if at <= 0 {
		return "", 0, false
	}
	name, rest := derived[:at], derived[at:]
	if digits, found := strings.CutPrefix(rest, slotMark+"s:"); found {
		if n, ok := slotNumber(digits); ok && n > 0 {
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

// StoredName returns the name under which stores keep a lock, such as a *padlock.Lock. A lock with
// a method Slot() int is a permit if Slot returns 0 or more. For a permit, StoredName returns
// SlotName(lock.Name(), lock.Slot()). For any other lock, StoredName returns lock.Name().
func StoredName(lock interface{ Name() string }) string {
	if permit, ok := lock.(interface{ Slot() int }); ok {
		if slot := permit.Slot(); slot >= 0 {
			return SlotName(lock.Name(), slot)
		}
	}
	return lock.Name()
}

// IsSlot reports whether SplitSlot would split name. For a name that cannot be split, IsSlot is
// fast.
func IsSlot(name string) bool {
	if strings.IndexByte(name, slotMark[0]) < 0 {
		return false
	}
	_, _, ok := SplitSlot(name)
	return ok
}

// slotNumber reads a number from 0 to MaxSlots. It accepts only the digits that SlotName and
// SlotGate write.
func slotNumber(digits string) (int, bool) {
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n <= MaxSlots && digits == strconv.Itoa(n)
}

// SlotPrefix returns the common prefix of all names that SlotName and SlotGate make from name.
// Normally no other name begins with this prefix.
func SlotPrefix(name string) string { return name + slotMark }

// CheckSlots returns ErrInvalid if a name cannot have n slots in a store with the guarantees g.
func CheckSlots(name string, n int, g *Guarantees) error {
	if n < 1 || n > MaxSlots {
		is := "is " + strconv.Itoa(n)
		if n < 1 {
			is = "is less than 1"
		}
		return invalid("Slots", is+"; 1 to "+strconv.Itoa(MaxSlots)+" are allowed")
	}
	most := MaxName
	if g.MaxName > 0 {
		most = min(MaxName, g.MaxName)
	}
	if most -= maxSlotSuffix; len(name) > most {
		return invalid("name", "has "+strconv.Itoa(len(name))+" bytes, at most "+strconv.Itoa(most)+" are allowed with Slots")
	}
	return CheckName(name, g)
}
