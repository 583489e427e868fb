package holder

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// A step is something that can happen next.
type step struct {
	label string
	fault bool
	do    func()
}

// steps returns what can happen next. The labels differ.
func (w *world) steps() []step {
	var all []step
	for _, c := range w.callers {
		all = append(all, c.steps()...)
	}
	for _, r := range w.sorted() {
		all = append(all, w.stepsOf(r)...)
	}
	all = append(all, w.clockSteps()...)
	all = slices.DeleteFunc(all, func(s step) bool { return s.fault && w.faults == w.space.faults })
	return slices.CompactFunc(all, func(a, b step) bool { return a.label == b.label }) // equal requests
}

func (c *caller) steps() (all []step) {
	can := func(call string) bool { return slices.Contains(c.w.space.calls, call) }
	add := func(what string, do func()) { all = append(all, step{label: c.name + " " + what, do: do}) }
	switch {
	case c.call == "" && c.who > 0 && c.w.space.askers > 0:
		if c.asks < c.w.space.asks {
			add("calls Ask", c.askHolder)
		}
	case c.call == "" && c.lock != nil:
		add("calls Release", c.release)
		if c.ctx == nil {
			add("calls Context", func() { c.ctx = c.lock.Context() })
		}
		if can(callExport) && !c.exported {
			add("calls Export", c.export)
		}
		for _, call := range []string{callCheck, callExtend, callPromote, callDemote} {
			if can(call) && c.asks < c.w.space.asks {
				add("calls "+call, func() { c.ask(call) })
			}
		}
	case c.call == "" && c.acquires < c.w.space.acquires[c.who] && !c.closing && !(c.w.space.own && c.releases > 0):
		if can(callAcquire) {
			add("calls Acquire", func() { c.take(false) })
		}
		if can(callTry) {
			add("calls TryAcquire", func() { c.take(true) })
		}
	case c.call == callPromote && !c.cancelled && can(callCancel):
		add("gives up the promotion", func() { c.cancelled = true; c.cancel() })
	case c.canGiveUp():
		add("gives up", c.giveUp)
	}
	if can(callClose) && !c.closing && c.acquires > 0 {
		add("closes its Locker", c.close)
	}
	return all
}

// sorted returns the requests under way in an order that does not depend on goroutines.
func (w *world) sorted() []*request {
	all := slices.Clone(w.requests)
	slices.SortStableFunc(all, func(a, b *request) int { return strings.Compare(w.label(a), w.label(b)) })
	return all
}

// label names a request as a story does.
func (w *world) label(r *request) string {
	what := r.op
	if r.cleanUp {
		what = "clean-up"
	}
	if len(r.parts) > 0 {
		what = "renewal of both"
	}
	s := w.callers[r.who].name + "'s " + what
	if n := w.tokens[r.token]; n > 1 && len(r.parts) == 0 {
		s += " with token " + strconv.Itoa(n)
	}
	switch {
	case r.left:
		s += " of before"
	case r.applied:
		s += " that has arrived"
	}
	return s
}

func (w *world) stepsOf(r *request) (all []step) {
	add := func(fault bool, hows ...string) {
		for _, how := range hows {
			all = append(all, step{w.label(r) + " " + how, fault, func() { w.perform(r, how, func() {}) }})
		}
	}
	if c := w.callers[r.who]; c.canGiveUp() && !r.left {
		for _, how := range []string{answered, comesBack, handsOver} {
			if w.ends(r, how) {
				all = append(all, step{w.label(r) + " " + how + ", as " + c.name + " gives up", false, func() { w.perform(r, how, c.giveUp) }})
			}
		}
	}
	switch {
	case r.left:
		add(false, arrives)
	case r.applied:
		add(false, comesBack)
	case r.op == opWait:
		if !w.named(r.name).Excludes(r.token, r.acquire.Shared, w.now()) {
			add(false, wakes)
			if r.reserve {
				add(false, handsOver)
			}
		}
		add(true, lost)
	default:
		add(false, answered)
		add(true, replyLost, lost, refused)
		if w.lates() < w.space.late && r.op != opLook {
			add(true, delayed)
		}
		if r.op == opAcquire || r.op == opRenew {
			add(true, slowReply)
		}
	}
	return all
}

// canGiveUp reports whether the context of c's Acquire may end now.
func (c *caller) canGiveUp() bool {
	return c.call == callAcquire && !c.cancelled && slices.Contains(c.w.space.calls, callCancel)
}

func (c *caller) giveUp() {
	c.cancelled = true
	c.cancel()
}

// ends reports whether how is a way in which an acquire or a wait can end well.
func (w *world) ends(r *request, how string) bool {
	switch how {
	case comesBack:
		return r.op == opAcquire && r.applied
	case answered:
		return r.op == opAcquire && !r.applied
	default:
		return r.op == opWait && r.reserve && !w.named(r.name).Excludes(r.token, r.acquire.Shared, w.now())
	}
}

func (w *world) lates() (n int) {
	for _, r := range w.requests {
		if r.kept {
			n++
		}
	}
	return n
}

// An edge is a time at which something changes by itself.
type edge struct {
	at   time.Duration
	what string
	both bool // the time just before it counts, too
}

// timersOf says what a method of the Locker waits for.
var timersOf = map[string]string{
	"tryStore": "next try", "releaseAtStore": "next try to release", "repeatRelease": "next clean-up",
	"askAgain": "second clean-up", "newBatch": "end of the patience with a renewal of several locks", "lookForQuestions": "next look", "startTimer": "time to wait", "awaitPromotion": "next try to be promoted", "awaitLateDemotion": "promotion", "convert": "next try to convert", "waitAsHead": "next look", "askStore": "next look",
}

// far is the time of what never happens.
const far = driver.Instant(1<<63 - 1)

// beside is how much before an edge the clock may stop.
const beside = time.Millisecond

// next returns the next edge.
func (w *world) next() (edge, bool) {
	var all []edge
	now := w.at()
	add := func(at time.Duration, what string, both bool) {
		if at > now {
			all = append(all, edge{at, what, both})
		}
	}
	for _, c := range w.callers {
		for _, t := range c.clock.running() {
			add(now+t.at.Sub(c.clock.Now()), c.name+"'s "+timersOf[t.who], false)
		}
		if at := c.face.due(); at > 0 && at < far {
			add(now+at.Sub(c.clock.Now()), "the next look at "+c.name+"'s lock", true)
		}
		if c.lock != nil {
			add(w.facts[c.token].usable(), "the end of "+c.name+"'s lock", true)
		}
	}
	for _, r := range w.requests {
		if !r.left && r.deadline > 0 {
			add(r.deadline, "the end of the patience for "+w.label(r), false)
		}
	}
	for _, state := range w.names {
		for _, h := range state.Holds {
			add(until(h.Until), "the end of a lease in the store", true)
		}
		add(until(state.Cool), "the end of the cool-down", true)
	}
	if len(all) == 0 {
		return edge{}, false
	}
	first := slices.MinFunc(all, func(a, b edge) int { return int(a.at - b.at) })
	var whats []string
	for _, e := range all {
		if e.at == first.at {
			whats = append(whats, e.what)
			first.both = first.both || e.both
		}
	}
	slices.Sort(whats)
	return edge{first.at, strings.Join(slices.Compact(whats), " and "), first.both}, true
}

func (w *world) clockSteps() []step {
	e, ok := w.next()
	if !ok {
		return nil
	}
	to := func(at time.Duration) func() { return func() { w.passTo(at) } }
	all := []step{{label: "time passes to " + e.what, do: to(e.at)}}
	if e.both && e.at-beside > w.at() {
		all = append(all, step{label: "time passes to just before " + e.what, do: to(e.at - beside)})
	}
	return all
}

// take makes the step with that label.
func (w *world) take(label string) bool {
	for _, s := range w.steps() {
		if s.label == label {
			if s.fault {
				w.faults++
			}
			w.leaveRest()
			s.do()
			w.rest()
			return true
		}
	}
	return false
}
