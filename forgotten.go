package padlock

import (
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// If there is an observer, the garbage collector reports each Lock that the caller drops. To ask
// the collector for one report takes a fifth of the time of an acquire from a memstore. So if locks
// are taken in quick succession, one report serves a crew of Locks, which are one piece of memory:
// it comes when all of them are garbage.

// crew is the holds that share a report. Locker.mu guards it. The garbage collector keeps it alive
// until the report, so it does not refer to holds that are over.
type crew struct {
	l     *Locker
	open  int   // how many of its holds are not over
	alone *hold // the hold of a crew of one; nil if it is over
}

// leaveCrew is called when h is over. The caller holds mu.
func (h *hold) leaveCrew() {
	if h.crew != nil {
		h.crew.open--
		h.crew.alone, h.crew = nil, nil
	}
}

// crews makes the crews of a Locker. Locker.mu guards it.
type crews struct {
	since    driver.Instant // when the present period began
	taken    int            // how many locks were taken in this period
	crew     *crew          // the crew that has room for further locks
	rest     []Lock         // the Locks of that crew that nobody has yet
	watching bool           // the next garbage collection calls dropLocks
}

// In each period, crewAfter locks have a report of their own. Further locks share reports.
const (
	crewPeriod = 100 * time.Millisecond
	crewAfter  = 100
	crewMost   = 128
)

// watchedHandle returns the Lock of h, whose end as garbage is reported. The caller holds mu, and
// passes the Lock on to the caller of this package.
func (h *hold) watchedHandle() *Lock {
	c := &h.locker.crews
	if h.grantedAt.Sub(c.since) > crewPeriod {
		c.since, c.taken, c.rest = h.grantedAt, 0, nil
	}
	if len(c.rest) == 0 {
		if c.taken++; c.taken <= crewAfter {
			return h.handleAlone()
		}
		c.beginCrew(h.locker)
	}
	k := &c.rest[0]
	c.rest = c.rest[1:]
	k.h, h.crew = h, c.crew
	c.crew.open++
	return k
}

// handleAlone returns a Lock that has a report of its own.
func (h *hold) handleAlone() *Lock {
	h.crew = &crew{l: h.locker, open: 1, alone: h}
	k := &Lock{h: h}
	runtime.AddCleanup(k, (*crew).forgotten, h.crew)
	return k
}

// beginCrew begins a crew.
func (c *crews) beginCrew(l *Locker) {
	locks := new([crewMost]Lock)
	c.rest, c.crew = locks[:], &crew{l: l}
	runtime.AddCleanup(locks, (*crew).forgotten, c.crew)
	if !c.watching {
		c.watching = true
		runtime.AddCleanup(&dropped{}, (*Locker).dropLocks, l)
	}
}

// A dropped is garbage at once. So the next garbage collection finds it.
type dropped struct{ _ *int }

// dropLocks is called after a garbage collection. The Locker keeps the Locks of a crew alive until
// then, or until the crew is complete.
func (l *Locker) dropLocks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crews.rest, l.crews.watching = nil, false
}

// forgotten is called when the caller's Locks of all holds have been garbage-collected. So each
// hold that is not over was forgotten.
func (c *crew) forgotten() {
	l := c.l
	l.mu.Lock()
	defer l.unlock()
	switch {
	case c.open == 0:
	case c.alone != nil:
		c.alone.noteForgotten()
	default:
		for _, e := range l.renewer.heap {
			if e.h.crew == c {
				e.h.noteForgotten()
			}
		}
	}
}

func (h *hold) noteForgotten() {
	if h.cause == nil && h.released.Load() == nil && !h.exported && !h.locker.closed {
		h.noteHold(Event{Kind: EventForgotten})
	}
}
