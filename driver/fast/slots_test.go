package fast

import (
	"strings"
	"testing"
)

// The names of permits and gates are a format: older programs derive the same ones.
func TestSlotNames(t *testing.T) {
	for _, name := range []string{"reports", strings.Repeat("long", 60)} {
		for n, digits := range map[int]string{0: "0", 7: "7", 12: "12", MaxSlots: "1024"} {
			if got, want := SlotName(name, n), name+"\x1fslot:"+digits; got != want {
				t.Errorf("SlotName is %q, want %q", got, want)
			}
			if got, want := SlotGate(name, n), name+"\x1fslots:"+digits; got != want {
				t.Errorf("SlotGate is %q, want %q", got, want)
			}
		}
		if base, slot, ok := SplitSlot(SlotName(name, 12)); base != name || slot != 12 || !ok {
			t.Errorf("the permit 12 of %q is split into %q, %d, %v", name, base, slot, ok)
		}
		if base, slot, ok := SplitSlot(SlotGate(name, 12)); base != name || slot != -1 || !ok {
			t.Errorf("the gate of %q is split into %q, %d, %v", name, base, slot, ok)
		}
	}
}

// The name of a permit or a gate that is only looked up is not allocated, if it is short.
func TestSlotNamesAllocateNothing(t *testing.T) {
	names := map[string]bool{}
	if n := testing.AllocsPerRun(100, func() {
		if names[SlotName("reports", 12)] || names[SlotGate("reports", 12)] {
			t.Error("a permit is in an empty map")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
