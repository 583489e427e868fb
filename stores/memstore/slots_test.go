package memstore

import (
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
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
			state, err := s.Inspect(t.Context(), driver.SlotName(name, i))
			if err != nil || len(state.Holds) != 1 || state.Name != driver.SlotName(name, i) {
				t.Errorf("permit %d: %+v, %v", i, state, err)
			}
		}
	}
}

// The name of a permit that is taken and released in turn is allocated only once.
func TestAPermitTakenAgain(t *testing.T) {
	s, r := New(), request("gpu", "a")
	permit := driver.SlotName(r.Name, 0)
	take := func() {
		if slot, _, err := s.AcquireSlot(t.Context(), r, 4, false); slot != 0 || err != nil {
			t.Fatal(slot, err)
		}
		if out, err := s.Release(t.Context(), permit, r.Token, 0); out != driver.OutcomeReleased {
			t.Fatal(out, err)
		}
	}
	if n := testing.AllocsPerRun(100, take); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A spare entry gives its name only to a permit of that name.
func TestPermitsOfTwoNamesInTurn(t *testing.T) {
	s := New()
	for range 3 {
		for _, name := range []string{"gpu", "cpu"} {
			if _, _, err := s.AcquireSlot(t.Context(), request(name, "a"), 4, false); err != nil {
				t.Fatal(err)
			}
			state, err := s.Inspect(t.Context(), driver.SlotName(name, 0))
			if err != nil || len(state.Holds) != 1 {
				t.Errorf("the permit of %s: %+v, %v", name, state, err)
			}
			if out, err := s.Release(t.Context(), driver.SlotName(name, 0), "a", 0); out != driver.OutcomeReleased {
				t.Errorf("the permit of %s: %v, %v", name, out, err)
			}
		}
	}
}
