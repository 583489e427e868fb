package padlock

import (
	"runtime"
	"time"
	"weak"

	"github.com/padlock-go/padlock/driver"
)

// If there is an observer, the garbage collector reports each Lock that the caller drops. To ask
// the collector for one report takes a fifth of the time of an acquire from a memstore. So if locks
// are taken in quick succession, one report serves a crew of Locks: it comes when all of them are
// garbage.

// crew is up to crewMost holds that share a report. Locker.mu guards it.
type crew struct{ holds []*hold }

// canary is kept alive by the Locks of a crew. The report comes when the canary is garbage, so
// neither the crew nor a hold may refer to it.
type canary struct{ crew *crew }

// watchedLock is the Lock of a member of a crew.
type watchedLock struct {
	Lock
	canary *canary
}

// crews makes the crews of a Locker. Locker.mu guards it.
type crews struct {
	since driver.Instant // when the present period began
	taken int            // how many locks were taken in this period
	last  weak.Pointer[canary]
}

// In each period, crewAfter locks have a report of their own. Further locks share reports.
const (
	crewPeriod = 100 * time.Millisecond
	crewAfter  = 100
	crewMost   = 64
)

// watchedHandle is a function of its own, so that handle is small enough to be inlined.
func (h *hold) watchedHandle() *Lock {
	h.locker.mu.Lock()
	defer h.locker.mu.Unlock()
	w := &watchedLock{canary: h.locker.crews.join(h)}
	w.h = h
	return &w.Lock
}

// join returns the canary that the Lock of h keeps alive.
func (c *crews) join(h *hold) *canary {
	if h.grantedAt.Sub(c.since) > crewPeriod {
		c.since, c.taken = h.grantedAt, 0
	}
	c.taken++
	if c.taken > crewAfter {
		if k := c.last.Value(); k != nil && len(k.crew.holds) < crewMost {
			k.crew.holds = append(k.crew.holds, h)
			return k
		}
	}
	k := &canary{&crew{[]*hold{h}}}
	runtime.AddCleanup(k, (*crew).forgotten, k.crew)
	if c.taken >= crewAfter {
		c.last = weak.Make(k)
	}
	return k
}

// forgotten is called when the caller's Locks of all holds have been garbage-collected.
func (c *crew) forgotten() {
	l := c.holds[0].locker
	l.mu.Lock()
	defer l.unlock()
	for _, h := range c.holds {
		if h.cause == nil && h.released.Load() == nil && !h.exported && !l.closed {
			h.noteHold(Event{Kind: EventForgotten})
		}
	}
}
