package soak

import (
	"slices"
	"sort"
	"time"
)

// maxIdle is how long a waiter may wait for a name that nobody holds.
const maxIdle = time.Second

// slack is added to the time for which the store may keep a hold.
const slack = int64(700 * time.Millisecond)

// idle checks I6: a waiter gets a name that nobody holds. No worker may wait longer than maxIdle
// for such a name, unless there is a fault, a process stands still, the store is slow to reply, or
// a process that was killed has left a hold or a place in the queue behind.
func (c *checker) idle() {
	busy := c.busy()
	for _, e := range c.events {
		if !e.Waited || e.At-e.Call < int64(maxIdle) || e.Op == Refused && e.Err != "held" {
			continue
		}
		for _, name := range e.wantedNames() {
			if gap := c.longestGap(&e, busy[name]); gap > int64(maxIdle) {
				c.say("I6", e.At, name, "worker %d waited, and nobody had it for %v", e.Worker, time.Duration(gap))
			}
		}
	}
}

// heldSpan is a time in which a name may have been taken. The hold is 0 or left if that was not by
// one of the workers' holds.
type heldSpan struct {
	from, to, hold int64
}

func (c *checker) busy() map[string][]heldSpan {
	busy := c.leftBehind()
	for name, holds := range c.names {
		for _, h := range holds {
			busy[name] = append(busy[name], heldSpan{h.Call, h.mayLive(slack + c.Coarse), h.ID})
			if h.Events[0].Waited { // a waiter held nothing before the reply
				busy[name][len(busy[name])-1].from = h.At
			}
			if c.Observes > 0 && h.Kept > 0 { // a process that looks later counts the cool-down from then
				busy[name] = append(busy[name], heldSpan{h.Kept, c.replaced(name, h.At), left})
			}
		}
	}
	for _, e := range c.events {
		if e.Op == Refused && e.Err != "held" && e.Err != "closed" && e.Err != superseded {
			for _, name := range e.wantedNames() {
				busy[name] = append(busy[name], heldSpan{e.Call, e.At + e.TTL + slack + c.Coarse, 0})
			}
		}
	}
	for _, list := range busy {
		sort.Slice(list, func(i, j int) bool { return list[i].from < list[j].from })
	}
	return busy
}

// longestGap returns the longest time for which a worker waited although the name was free. The
// event e describes the worker's call of Acquire. Times with a fault, slow replies or a stalled
// process are left out.
func (c *checker) longestGap(e *Event, busy []heldSpan) int64 {
	var excused []heldSpan
	for _, b := range busy {
		if b.from >= e.At {
			break
		}
		if b.hold == left && c.Observes > 0 { // the waiter has seen the hold when it began to wait, at the latest
			b.to = min(b.to, max(b.from, e.Call)+c.NoticesLate+c.Observes+slack)
		}
		if b.to > e.Call && (b.hold != e.Hold || b.hold == 0) {
			excused = append(excused, b)
		}
	}
	for _, f := range slices.Concat(c.faults, c.slow) {
		if f[0] < e.At && f[1] > e.Call {
			excused = append(excused, heldSpan{f[0], f[1], 0})
		}
	}
	excused = append(excused, heldSpan{e.At, e.At, 0})
	sort.Slice(excused, func(i, j int) bool { return excused[i].from < excused[j].from })
	longest, at := int64(0), e.Call
	for _, x := range excused {
		if x.from-at > longest {
			longest = max(longest, x.from-at-c.still.timeBetween(at, x.from))
		}
		at = max(at, x.to)
	}
	return longest
}
