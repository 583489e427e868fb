package memstore

import (
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver/fast"
)

// Each permit has its own name, whatever the length of the name and the number of digits.
func TestNamesOfPermits(t *testing.T) {
	for _, name := range []string{"gpu", strings.Repeat("long", 60)} {
		s := New()
		const n = 12
		for i := range n {
			slot, _, err := s.AcquireSlot(t.Context(), request(name, string(rune('a'+i))), n, false)
			if err != nil || slot != i {
				t.Fatalf("permit %d is %d, %v", i, slot, err)
			}
		}
		for i := range n {
			state, err := s.Inspect(t.Context(), fast.SlotName(name, i))
			if err != nil || len(state.Holds) != 1 || state.Name != fast.SlotName(name, i) {
				t.Errorf("permit %d: %+v, %v", i, state, err)
			}
		}
	}
}
