package soak

import (
	"math"
	"slices"
	"sort"
)

// A Hold is one grant and its history, assembled from its events.
type Hold struct {
	ID     int64
	Worker int
	Name   string
	Call   int64 // time of the acquire call
	At     int64 // time of its reply
	TTL    int64
	Spans  []Span
	Grants []Grant
	Ends   int64  // when the release was confirmed; 0 if it was not
	Lost   int64  // when the lock's context ended without a release; 0 if that has not happened
	Cause  string // class of the error with which the context ended
	Until  int64  // the holder said that it may rely on the lock until this time; if it said so more than once, the latest time
	Fixed  bool
	Kept   int64 // the end of a cool-down or of HoldAtLeast, before which no other worker may get the name; 0 if there is none
	Cools  int64 // cool-down after the release
	Doubt  int64 // from this time on, the store may have ended the hold without the worker's knowledge; 0 if there is no such time
	Events []Event
	// If the worker was killed during a release or a demotion, Begun is the time at which that call
	// began, and BegunOp says which call it was. Otherwise Begun is 0.
	Begun   int64
	BegunOp Op
	died    int64 // when the worker was killed while it had the hold; 0 if it was not
	over    bool
}

// Span is a time in which the holder could work in one mode. It begins with the reply that granted
// this mode, and ends when the holder knows that it can no longer rely on the lock.
type Span struct {
	Shared   bool
	From, To int64
}

// Grant is one grant of a hold in one mode. A hold can have several grants, because it can be
// converted to the other mode.
type Grant struct {
	Shared bool
	At     int64
	Fence  uint64
}

// Holds assembles the events of each hold.
func Holds(events []Event) []*Hold {
	byID := map[int64]*Hold{}
	dead := map[[2]int]bool{} // by worker and life
	var all []*Hold
	for _, e := range ordered(events) {
		switch e.Op {
		case Acquired, Adopted:
			h := &Hold{ID: e.Hold, Worker: e.Worker, Name: e.Name, Call: e.Call, At: e.At, TTL: e.TTL, Until: e.Until, Fixed: e.Fixed}
			if e.Keep > 0 {
				h.Kept = e.Call + e.Keep
			}
			h.openSpan(e)
			if dead[[2]int{e.Worker, e.Life}] { // the worker died before this event was logged
				h.closeSpan(e.At)
			}
			byID[e.Hold] = h
			all = append(all, h)
		case Killed:
			dead[[2]int{e.Worker, e.Life}] = true
			for _, h := range all {
				if h.Worker == e.Worker && h.Events[0].Life == e.Life {
					h.killed(e.At)
				}
			}
		default:
			if h := byID[e.Hold]; h != nil {
				h.apply(e)
			}
		}
	}
	late := delayOf(events)
	for _, h := range all {
		h.closeSpan(math.MaxInt64)
		late.markDoubt(h)
	}
	return all
}

// ordered sorts the events by the time at which their result was known.
func ordered(events []Event) []Event {
	events = slices.Clone(events)
	sort.SliceStable(events, func(i, j int) bool { return events[i].At < events[j].At })
	return events
}

func (h *Hold) openSpan(e Event) {
	h.Events = append(h.Events, e)
	if e.Until <= e.At {
		h.over = true
		return
	}
	h.Spans = append(h.Spans, Span{e.Shared, e.At, math.MaxInt64})
	h.Grants = append(h.Grants, Grant{e.Shared, e.At, e.Fence})
}

// closeSpan ends the current span at the given time. If the holder could rely on the lock only
// until an earlier time, the span ends at that time.
func (h *Hold) closeSpan(at int64) {
	if h.over {
		return
	}
	h.over = true
	last := &h.Spans[len(h.Spans)-1]
	last.To = min(last.To, at, h.Until)
}

// killed is called when the hold's worker has died, so nobody relies on the hold any more. If the
// worker died during a call, the store may have carried out that call. So the hold's last span ends
// with the beginning of the call, even if the span was already closed.
func (h *Hold) killed(at int64) {
	switch h.Events[len(h.Events)-1].Op {
	case Released, Evicted, Lost:
	default:
		h.died = at
	}
	if h.Begun != 0 {
		at = h.Begun
		h.cutSpan(at)
	}
	h.closeSpan(at)
}

// cutSpan ends the last span at the given time, even if the hold is over.
func (h *Hold) cutSpan(at int64) {
	if n := len(h.Spans); n > 0 {
		h.Spans[n-1].To = min(h.Spans[n-1].To, at)
	}
}

func (h *Hold) apply(e Event) {
	h.Events = append(h.Events, e)
	switch e.Op {
	case Begun:
		h.Begun, h.BegunOp = e.At, Op(e.Err)
	case h.BegunOp:
		h.Begun, h.BegunOp = 0, ""
	}
	switch e.Op {
	case Verified:
		h.noteClaim(e)
	case Promoted, Demoted:
		h.applyConversion(e)
	case Exported:
		h.closeSpan(e.Call)
	case Lost:
		h.Lost, h.Cause = e.At, e.Err
		h.closeSpan(e.At)
	case Evicted:
		h.closeSpan(e.Call)
		if e.Err == "" {
			h.Ends = e.At
		}
	case Released:
		h.released(e)
	}
}

// released ends the hold. During a cool-down, the name stays taken.
func (h *Hold) released(e Event) {
	if !h.over && e.Until > 0 {
		h.Until = max(h.Until, e.Until)
	}
	h.closeSpan(e.Call)
	if e.Err == "unavailable" && h.Kept > 0 { // the store may have no room for the rest of HoldAtLeast, and has said so
		h.Kept = min(h.Kept, e.Call)
	}
	if h.Cools = e.Keep; e.Err != "" || h.Ends != 0 {
		return
	}
	if h.Ends = e.At; e.Keep > 0 {
		h.Kept = max(h.Kept, e.Call+e.Keep)
	}
}

// noteClaim takes the holder's deadline from the event e. The holder may rely on the lock until its
// deadline. The deadline 0 means that the holder no longer relies on the lock.
func (h *Hold) noteClaim(e Event) {
	switch {
	case h.over:
	case e.Until == 0:
		h.closeSpan(e.At)
	default:
		h.Until = max(h.Until, e.Until)
	}
}

// applyConversion ends the span in the old mode and begins a span in the new mode. The old span
// ends with the call, and the new one begins with the reply. In between, the holder cannot rely on
// either mode.
func (h *Hold) applyConversion(e Event) {
	if e.Op == Demoted && e.Err != "unavailable" {
		// The store has converted the hold, or may have done so. So from the beginning of the call,
		// the holder cannot rely on being alone. The error "unavailable" is different: the store
		// has certainly not converted the hold.
		h.cutSpan(e.Call)
	}
	switch {
	case h.over:
	case e.Err != "" && e.Op == Promoted:
		h.noteClaim(e)
	default:
		if e.Until > 0 {
			h.Until = max(h.Until, e.Until)
		}
		h.closeSpan(e.Call)
		if e.Until <= e.At || e.Err != "" && !e.Shared {
			return
		}
		h.over, h.Until = false, e.Until
		h.Spans = append(h.Spans, Span{e.Shared, e.At, math.MaxInt64})
		if e.Op == Promoted {
			h.Grants = append(h.Grants, Grant{false, e.At, e.Fence})
		}
	}
}

// mayLive returns the time until which the store may keep the hold.
func (h *Hold) mayLive(slack int64) int64 {
	first, last := h.Events[0], h.Events[len(h.Events)-1]
	kept := int64(0) // the end of a cool-down or of HoldAtLeast; slack is added because the store may start to count later than the holder
	if h.Cools > 0 || first.Keep > 0 {
		kept = max(last.At+h.Cools, first.At+first.Keep) + slack
	}
	switch {
	case h.Ends != 0:
		return max(h.Ends, kept)
	case h.Until == forever:
		return max(last.At+slack, kept)
	}
	return max(h.Until+slack, last.At+h.TTL+slack, kept)
}
