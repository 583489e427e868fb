package soak

import (
	"sort"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/safety"
)

// Check looks for violations of the invariants I1 to I17; Invariants explains them. The
// second result is the longest delay of a loss signal, without the times in which the worker's
// process stood still.
func Check(o *Outcome) ([]Violation, time.Duration) {
	c := check(o)
	return c.found, c.late
}

func check(o *Outcome) *checker {
	c := &checker{Promises: PromisesOf(o.Events), events: o.Events, holds: Holds(o.Events), names: map[string][]*Hold{}, waits: map[string][]Event{}, stalls: stallsOf(o.Events)}
	for _, h := range c.holds {
		c.names[h.Name] = append(c.names[h.Name], h)
	}
	c.collectTimes()
	for name, holds := range c.names {
		c.overlaps(name, holds)
		c.fences(name, holds)
		c.checkKept(name, holds)
		if c.Ordered {
			c.checkOrder(name, holds)
		}
	}
	for _, h := range c.holds {
		c.afterLoss(h)
		c.checkLossTime(h)
	}
	c.idle()
	c.checkSlots()
	c.leaders()
	c.checkBack()
	c.questions()
	c.newest()
	c.paths()
	c.weights()
	c.checkTold()
	sort.Slice(c.found, func(i, j int) bool { return c.found[i].At < c.found[j].At })
	return c
}

// collectTimes collects the times of stalls, faults and slow replies. It also collects the acquires.
func (c *checker) collectTimes() {
	for _, e := range c.events {
		if e.wasSlow() {
			c.slow = append(c.slow, [2]int64{e.Call, e.At})
		}
		switch e.Op {
		case Stalled:
			c.still = append(c.still, [2]int64{e.Call, e.At})
		case Acquired, Refused:
			c.waits[e.Name] = append(c.waits[e.Name], e)
		case Faulted:
			c.faults = append(c.faults, [2]int64{e.Call, e.At + e.TTL + int64(time.Second)})
		}
	}
	engines := c.stalls[engine]
	for w, list := range c.stalls {
		c.stalls[w] = append(list, engines...).merged()
	}
	c.stalls[engine] = engines
	c.still, c.faults, c.slow = c.still.merged(), c.faults.merged(), c.slow.merged()
}

// wasSlow reports whether the server was slow to reply to e. It judges only calls that never wait
// for another holder. If such a call was slow, hand-overs may be slow as well.
func (e *Event) wasSlow() bool {
	return (e.Op == Released || e.Op == Verified || e.Op == Evicted) && e.At-e.Call >= int64(minHeadStart)
}

// overlaps checks I1.
func (c *checker) overlaps(name string, holds []*Hold) {
	type span struct {
		Span
		h *Hold
	}
	var spans []span
	for _, h := range holds {
		for _, s := range h.Spans {
			if s.From < s.To {
				spans = append(spans, span{s, h})
			}
		}
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].From < spans[j].From })
	var any, writer span // the span with the latest end so far, and the exclusive span with the latest end
	for _, s := range spans {
		before := writer
		if !s.Shared {
			before = any
		}
		if s.From < before.To && before.h != s.h {
			c.say("I1", s.From, name, "%v", safety.ErrTwoHold("hold %x began %v before the end of hold %x", s.h.ID, time.Duration(before.To-s.From), before.h.ID))
		}
		if s.To > any.To {
			any = s
		}
		if !s.Shared && s.To > writer.To {
			writer = s
		}
	}
}

// fences checks I2: the fences of a name grow. It compares grants in the order in which workers
// reported them.
func (c *checker) fences(name string, holds []*Hold) {
	var grants []Grant
	for _, h := range holds {
		for _, g := range h.Grants {
			if !h.doubted(g.At) { // skip a grant if the hold may have ended before the worker learned of the grant
				grants = append(grants, g)
			}
		}
	}
	sort.Slice(grants, func(i, j int) bool { return grants[i].At < grants[j].At })
	var any, writer uint64
	for _, g := range grants {
		if g.Fence == 0 {
			continue
		}
		err := safety.FenceRises(g.Fence, any)
		if g.Shared {
			err = safety.FenceKeeps(g.Fence, writer)
		}
		if err != nil {
			c.say("I2", g.At, name, "%v (shared: %v)", err, g.Shared)
		}
		any = max(any, g.Fence)
		if !g.Shared {
			writer = max(writer, g.Fence)
		}
	}
}

// afterLoss checks I4.
func (c *checker) afterLoss(h *Hold) {
	for _, e := range h.Events {
		if e.Err == "" && h.Lost != 0 && e.Call > h.Lost && (e.Op == Verified || e.Op == Promoted || e.Op == Demoted || e.Op == Released) {
			c.say("I4", e.At, h.Name, "hold %x was lost, and %v later it was %s", h.ID, time.Duration(e.Call-h.Lost), e.Op)
		}
	}
}

// checkLossTime checks the first half of the invariant I5: a holder learns in time that it has lost
// its lock. It judges only holds that nothing renews, because only their deadlines are known
// exactly.
func (c *checker) checkLossTime(h *Hold) {
	if !h.Fixed || h.Until == forever || h.Lost == 0 || h.Until <= h.At {
		return // there was no deadline, or it passed before the worker could note it
	}
	if early := time.Duration(h.Until - h.Lost); h.Cause == "max hold" && early > time.Millisecond {
		c.say("I5", h.Lost, h.Name, "%v", safety.ErrTooEarly("hold %x reached its longest time %v early", h.ID, early))
	}
	late := time.Duration(h.Lost - h.Until - c.stoodStill(h.Worker, h.Until, h.Lost))
	c.late = max(c.late, late)
	if late > lateness {
		c.say("I5", h.Lost, h.Name, "hold %x learned of its end %v late", h.ID, late)
	}
}

// checkTold collects the violations that the workers and the monitor noticed themselves.
func (c *checker) checkTold() {
	late := map[int64]*Hold{}
	for _, h := range c.holds {
		if h.Doubt != 0 {
			late[h.ID] = h
		}
	}
	for _, e := range c.events {
		if e.Op != Broken {
			continue
		}
		invariant, what, _ := strings.Cut(e.Err, " ")
		switch {
		case invariant == "I3" && late[e.Hold] != nil && late[e.Hold].doubted(e.At):
			continue // the hold may have ended, and the worker could not know it yet
		case invariant == "I5" && e.At-e.Call-c.stoodStill(e.Worker, e.Call, e.At) <= int64(lateness):
			continue
		case invariant == "I8" && c.Voting && c.disturbed(e.Call, e.At):
			continue
		case invariant == "I11" && e.Call != 0 && c.mayStayBehind(&e, what):
			continue
		case invariant == "I8" && c.Several && strings.HasPrefix(what, brokenAndHeld) && c.disturbed(e.Call, e.At):
			continue // this is allowed: a member that did not reply to Break keeps the lease until the lease expires
		}
		c.say(invariant, e.At, e.Name, "%s (worker %d)", what, e.Worker)
	}
}

// mayStayBehind reports whether a violation of I11 is excused by a failure. The event e says that a
// worker released several names, and that one of them was still held afterwards. There are three
// cases:
//
//   - A majority of several servers decides. The majority may have carried out the release while
//     the other servers did not reply.
//   - One server decides, and AcquireAll was refused. AcquireAll then releases the names that it
//     had taken. If a release fails, it is repeated in the background.
//   - One server decides, and the release succeeded. Then only a fault excuses the violation: a
//     server confirmed the release and then failed, and the server that took its place had not
//     learned of the release.
func (c *checker) mayStayBehind(e *Event, what string) bool {
	if c.Voting || !strings.HasPrefix(what, severalReleased) {
		return c.disturbed(e.Call, e.At)
	}
	return c.faults.timeBetween(e.Call-int64(time.Second), e.At) > 0
}
