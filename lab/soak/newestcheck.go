package soak

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
)

// newestIdle is how long the newest caller may wait although nobody has the name. It looks once a
// second whether a newer one waits, takes a dozen requests for its turn, and those who wait before it
// in the store's queue take as many to give their turn up.
const newestIdle = int64(5 * time.Second)

// A newcomer is a caller of package newest.
type newcomer struct {
	id           int64
	name         string
	worker, life int
	number       uint64 // 0 if the worker was killed before it could note it
	arrived      int64
	entered      int64  // when it got the lock, perhaps only to give it up; or 0
	ended        int64  // when it got its turn, or gave up
	outcome      string // "" for a turn, the class of an error, or diedFirst
	hold         int64
	fence        uint64
}

// diedFirst is the outcome of a caller whose worker was killed.
const diedFirst = "killed"

// newest checks I15.
func (c *checker) newest() {
	byName := map[string][]*newcomer{}
	for _, n := range newcomers(c.events) {
		byName[n.name] = append(byName[n.name], n)
	}
	if len(byName) == 0 {
		return
	}
	busy := c.busy()
	for name, all := range byName {
		c.newerRuns(name, all)
		for _, n := range all {
			switch {
			case n.number == 0 || n.outcome == diedFirst:
			case n.outcome == superseded && !slices.ContainsFunc(all, func(x *newcomer) bool { return x.mayHaveRun(n) }):
				c.say("I15", n.ended, name, "caller %d was dropped, and no newer one had got the lock", n.number)
			default:
				c.newestWaits(n, all, busy[name])
			}
		}
	}
}

// newcomers assembles the callers from their events.
func newcomers(events []Event) (all []*newcomer) {
	byID := map[int64]*newcomer{}
	for _, e := range ordered(events) {
		n := byID[e.Other]
		switch {
		case e.Op == Arrived && n == nil:
			n = &newcomer{id: e.Other, name: e.Name, worker: e.Worker, life: e.Life, number: e.Fence, arrived: e.At, ended: math.MaxInt64, outcome: diedFirst}
			byID[e.Other] = n
			all = append(all, n)
		case n == nil:
		case e.Op == Entered:
			n.entered = e.At
		case e.Op == Acquired:
			n.ended, n.outcome, n.hold, n.fence = e.At, "", e.Hold, e.Fence
		case e.Op == Refused:
			n.ended, n.outcome = e.At, e.Err
		}
	}
	for _, e := range events {
		if e.Op == Killed {
			for _, n := range all {
				if n.worker == e.Worker && n.life == e.Life {
					n.ended = min(n.ended, e.At)
				}
			}
		}
	}
	return all
}

// mayHaveRun reports whether x is newer than n and may have had its turn before n was dropped. A
// caller writes its number just before its turn, and may be killed or give up then.
func (x *newcomer) mayHaveRun(n *newcomer) bool {
	switch {
	case x.number <= n.number || x.outcome == superseded:
		return false
	case x.outcome == diedFirst:
		return x.arrived < n.ended
	}
	return x.entered != 0 && x.entered <= n.ended
}

// newerRuns checks that each caller that has its turn is newer than those before it.
func (c *checker) newerRuns(name string, all []*newcomer) {
	var ran []*newcomer
	for _, n := range all {
		if n.fence != 0 {
			ran = append(ran, n)
		}
	}
	slices.SortFunc(ran, func(a, b *newcomer) int { return cmp.Compare(a.fence, b.fence) })
	for i, n := range ran {
		if i > 0 {
			if err := safety.FenceRises(n.number, ran[i-1].number); err != nil {
				c.say("I15", n.ended, name, "caller %d ran after caller %d: %v", n.number, ran[i-1].number, err)
			}
		}
	}
}

// newestWaits checks that nobody waits for long while the name is free and no newer caller lives. The
// mark of a newer caller that was killed ends within the time after the fault for which the store is
// excused.
func (c *checker) newestWaits(n *newcomer, all []*newcomer, busy []heldSpan) {
	if n.ended-n.arrived < newestIdle {
		return
	}
	for _, x := range all {
		if x.number > n.number {
			busy = append(slices.Clip(busy), heldSpan{x.arrived, x.ended, 0})
		}
	}
	slices.SortFunc(busy, func(a, b heldSpan) int { return cmp.Compare(a.from, b.from) })
	wait := Event{Call: n.arrived, At: min(n.ended, c.end()), Hold: n.hold}
	if gap := c.longestGap(&wait, busy); gap > newestIdle {
		c.say("I15", n.ended, n.name, "caller %d waited (%q), and for %v nobody had the name and no newer one waited", n.number, n.outcome, time.Duration(gap))
	}
}

// end returns the time of the last event.
func (c *checker) end() (at int64) {
	for _, e := range c.events {
		at = max(at, e.At)
	}
	return at
}
