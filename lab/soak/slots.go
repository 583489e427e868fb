package soak

import (
	"cmp"
	"sort"

	"github.com/padlock-go/padlock/driver/fast"
	"github.com/padlock-go/padlock/internal/safety"
)

// Only one name has permits, and permitCount is their number. At times the workers want more
// permits than there are.
const permitCount = 2

// permitName returns the name that has permits.
func permitName(l *Load) string { return l.Prefix + "slots" }

// slotNames returns the names of the locks with which a store implements a name with n permits.
// Each permit has a lock. Two more locks, the gates, are for the queues of the waiters.
func slotNames(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fast.SlotName(name, i))
	}
	return append(names, fast.SlotGate(name, n), fast.SlotGate(name, 0))
}

// wantedNames returns the names of the locks that would satisfy an acquire. For a permit, these are
// the locks of all permits of the name. Otherwise it is the name itself.
func (e *Event) wantedNames() []string {
	if e.Slots == 0 {
		return []string{e.Name}
	}
	return e.slotNames()[:e.Slots]
}

// slotNames returns the names of all locks that an acquire of a permit uses.
func (e *Event) slotNames() []string {
	if base, _, ok := fast.SplitSlot(e.Name); ok {
		return slotNames(base, e.Slots)
	}
	return slotNames(e.Name, e.Slots)
}

// checkSlots checks the invariant I10: never more than n permits of a name are in use. It need not
// check whether two holders have the same permit. Each permit has its own name, so two holders
// would break the invariant I1.
func (c *checker) checkSlots() {
	byName := map[string][]*Hold{}
	for _, h := range c.holds {
		if base, _, ok := fast.SplitSlot(h.Name); ok {
			byName[base] = append(byName[base], h)
		}
	}
	for name, holds := range byName {
		c.atOnce(name, holds)
	}
}

// atOnce counts how many holds are inside their windows at the same time.
func (c *checker) atOnce(name string, holds []*Hold) {
	type edge struct {
		at   int64
		step int
		h    *Hold
	}
	var edges []edge
	for _, h := range holds {
		for _, s := range h.Spans {
			if s.From < s.To {
				edges = append(edges, edge{s.From, 1, h}, edge{s.To, -1, h})
			}
		}
	}
	sort.Slice(edges, func(i, j int) bool {
		return cmp.Or(cmp.Compare(edges[i].at, edges[j].at), edges[i].step-edges[j].step) < 0
	})
	inside := 0
	for _, e := range edges {
		inside += e.step
		if most := e.h.Events[0].Slots; e.step > 0 && inside > most {
			c.say("I10", e.at, name, "%v", safety.ErrTwoHold("hold %x is number %d inside the window of its permit, of %d", e.h.ID, inside, most))
		}
	}
}
