package soak

import "time"

// lately is how long before its death a process may have given up a name without the store having
// learned of it. A waiter that gives up leaves the queue in the background.
const lately = int64(time.Second)

// leftBehind returns when a name may be taken although no worker holds it: the store has not yet
// noticed the death of a process that held the name or waited for it. The store's Guarantees say
// how long that may take. For most stores that time is short, and leftBehind returns nothing.
func (c *checker) leftBehind() map[string][]heldSpan {
	left := map[string][]heldSpan{}
	if c.noticed == 0 {
		return left
	}
	add := func(e *Event, died int64) {
		for _, name := range e.wantedNames() {
			left[name] = append(left[name], heldSpan{died, died + c.noticed + slack, 0})
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
	return left
}
