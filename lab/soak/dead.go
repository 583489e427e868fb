package soak

import (
	"math"
	"time"
)

// lately is how long before its death a process may have given up a name without the store having
// learned of it. A waiter that gives up leaves the queue in the background.
const lately = int64(time.Second)

// left is the hold of a heldSpan that no living process has.
const left = -1

// leftBehind returns when a name may be taken although no worker holds it: the store has not yet
// noticed the death of a process that held the name or waited for it, or granted it just before.
// The store's Guarantees say how long that may last. For most stores that time is short, and
// leftBehind returns nothing. If each process counts a lease from when it first saw the hold, the
// time ends with the first exclusive grant, which replaces what the dead process has left.
func (c *checker) leftBehind() map[string][]heldSpan {
	found := map[string][]heldSpan{}
	if c.NoticesLate == 0 && c.Observes == 0 {
		return found
	}
	add := func(e *Event, died int64) {
		for _, name := range e.wantedNames() {
			until := died + c.NoticesLate + slack
			if c.Observes > 0 {
				until = max(until, c.replaced(name, died))
			}
			found[name] = append(found[name], heldSpan{died, until, left})
		}
	}
	for _, h := range c.holds {
		if h.died != 0 {
			add(&Event{Name: h.Name}, h.died)
		}
	}
	type process struct{ worker, life int }
	type call struct {
		process
		begun int64
	}
	asked := map[call]Event{}       // the calls that have not returned
	gaveUp := map[process][]Event{} // the calls that returned without the lock, and releases that were not confirmed
	for _, e := range ordered(c.events) {
		p := process{e.Worker, e.Life}
		switch e.Op {
		case Asked:
			asked[call{p, e.Call}] = e
		case Acquired, Adopted, Refused:
			delete(asked, call{p, e.Call})
		case Killed:
			for id, a := range asked {
				if id.process == p {
					add(&a, e.At)
				}
			}
			for _, g := range gaveUp[p] {
				if g.At >= e.At-lately {
					add(&g, e.At)
				}
			}
		}
		if e.Op == Refused || e.Op == Released && e.Err != "" {
			gaveUp[p] = append(gaveUp[p], e)
		}
	}
	return found
}

// replaced returns the time of the first exclusive grant of a name after the given time.
func (c *checker) replaced(name string, after int64) int64 {
	first := int64(math.MaxInt64)
	for _, h := range c.names[name] {
		for _, g := range h.Grants {
			if !g.Shared && g.At > after {
				first = min(first, g.At)
			}
		}
	}
	return first
}
