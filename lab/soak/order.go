package soak

import (
	"fmt"
	"sort"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
)

// A waiter must get the lock before every waiter that came at least minHeadStart later. A waiter
// with a smaller head start may be overtaken, because its request may be delayed on the way.
const minHeadStart = 300 * time.Millisecond

// checkKept checks the invariant I9: nobody else gets the name during a cool-down or the time of
// HoldAtLeast.
func (c *checker) checkKept(name string, holds []*Hold) {
	for _, h := range holds {
		if h.Kept == 0 {
			continue
		}
		from, keep := h.At, h.Kept-h.Call
		reader := len(h.Spans) > 0 && h.Spans[len(h.Spans)-1].Shared // after a reader, other readers may enter during the cool-down
		if h.Cools > 0 && h.Ends != 0 {
			from, keep = h.Ends, h.Cools
		}
		// Kept is counted from the beginning of the call, but the store starts to count later. The
		// subtraction allows for a clock of the store that runs 1 % fast.
		until := h.Kept - keep/50 - int64(3*time.Millisecond)
		for _, other := range holds {
			if reader && len(other.Spans) > 0 && other.Spans[0].Shared {
				continue
			}
			if other != h && other.At > from && other.At < until && len(other.Spans) > 0 {
				c.say("I9", other.At, name, "%v", safety.ErrTooEarly("hold %x was granted %v before the name might be (hold %x)", other.ID, time.Duration(h.Kept-other.At), h.ID))
			}
		}
	}
}

// arrival is an exclusive wait. It ended with a grant, or was refused because the name was held.
type arrival struct {
	worker   int
	call, at int64
	first    int64 // when the caller became the first waiter in its process
	hold     int64 // 0 if the wait was refused
}

// checkOrder checks the second half of the invariant I6: waiters get the name in order of arrival.
// The waiters of one process form a local line, and only the first waiter of that line is in the
// store's queue. So a waiter has arrived when it becomes the first of its local line.
func (c *checker) checkOrder(name string, holds []*Hold) {
	var all []arrival
	for _, h := range holds {
		if e := h.Events[0]; e.Op == Acquired && e.Waited && !e.Shared && e.Slots == 0 {
			first, _ := c.firstSince(&e)
			all = append(all, arrival{e.Worker, e.Call, e.At, first, h.ID})
		}
	}
	for _, e := range c.waits[name] {
		if e.Op != Refused || e.Err != "held" || !e.Waited || e.Shared || e.Slots > 0 {
			continue
		}
		if first, ever := c.firstSince(&e); ever {
			all = append(all, arrival{e.Worker, e.Call, e.At, first, 0})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at < all[j].at })
	for i, later := range all {
		for _, earlier := range all[i+1:] {
			if later.hold != 0 && c.overtaken(earlier, later) {
				c.say("I6", later.at, name, "%s waited for %v and hold %x came %v after it, and was granted first",
					earlier, time.Duration(earlier.at-earlier.call), later.hold, time.Duration(later.call-earlier.first))
			}
		}
	}
}

func (a arrival) String() string {
	if a.hold == 0 {
		return fmt.Sprintf("worker %d was refused: it", a.worker)
	}
	return fmt.Sprintf("hold %x", a.hold)
}

// overtaken reports whether the later waiter got the lock first, without an excuse. Excuses are
// faults, slow replies of the store, and long stalls in which the earlier waiter may have missed
// its turn. Shorter stalls are subtracted from the times.
func (c *checker) overtaken(earlier, later arrival) bool {
	least := int64(minHeadStart) / 2 // how long the earlier waiter waited after the grant, at least
	if earlier.hold == 0 {
		least = int64(maxIdle) // a waiter leaves the queue some time before its refusal
	}
	ahead, behind := later.call-earlier.first, earlier.at-later.at
	if ahead < int64(minHeadStart) || behind < least {
		return false
	}
	from := earlier.first - int64(time.Second)
	if c.faults.timeBetween(from, earlier.at)+c.slow.timeBetween(from, earlier.at) > 0 || c.stalledFor(earlier.worker, from, earlier.at) >= int64(minHeadStart) {
		return false
	}
	ahead -= c.stoodStill(earlier.worker, earlier.first, later.call)
	behind -= c.stoodStill(earlier.worker, later.at, earlier.at)
	return ahead >= int64(minHeadStart) && behind >= least
}

// stalledFor returns the longest stall of the worker or the engine in the given time.
func (c *checker) stalledFor(worker int, from, to int64) (longest int64) {
	list, known := c.stalls[worker]
	if !known {
		list = c.stalls[engine]
	}
	for _, x := range list {
		if x[1] > from && x[0] < to {
			longest = max(longest, x[1]-x[0])
		}
	}
	return longest
}

// The waiters of one process form a local line. Only the first waiter of that line is in the
// store's queue. firstSince returns when the waiter of the event e became the first one. The result
// ever is false if that never happened.
func (c *checker) firstSince(e *Event) (since int64, ever bool) {
	since, ever = e.Call, true
	for _, other := range c.waits[e.Name] {
		switch {
		case other.Worker != e.Worker || other.Call >= e.Call || other.At <= e.Call:
		case other.At <= e.At:
			since = max(since, other.At)
		default:
			ever = false
		}
	}
	return since, ever
}
