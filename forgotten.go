package padlock

import (
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// If there is an observer, the Locker learns through runtime.AddCleanup that the caller has dropped
// a Lock. One AddCleanup takes a fifth of the time of an acquire from a memstore. So if locks are
// taken in quick succession, many Locks share one cleanup. These Locks are a crew: they are the
// elements of one array, and their cleanup runs when all of them are garbage.

// crew stands for the holds whose Locks share one cleanup. Locker.mu guards it. The crew stays in
// memory until its cleanup runs, so it does not refer to holds that are over.
type crew struct {
	l     *Locker
	open  int   // how many holds of the crew are not over
	alone *hold // the only hold of a crew of handleAlone, until it is over; nil in other crews
}

// leaveCrew removes h from its crew. It is called when h is over. The caller holds mu.
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
	rest     []Lock         // the Locks of that crew that are not in use yet
	watching bool           // the next garbage collection calls dropLocks
}

// In each period of crewPeriod, each of the first crewAfter locks has a cleanup of its own. After
// that, up to crewMost locks share one.
const (
	crewPeriod = 100 * time.Millisecond
	crewAfter  = 100
	crewMost   = 128
)

// watchedHandle returns a Lock for h with a cleanup that notices if the program drops the Lock. The
// caller holds mu, and gives the Lock to the caller of this package.
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

// handleAlone returns a Lock that has a cleanup of its own.
func (h *hold) handleAlone() *Lock {
	h.crew = &crew{l: h.locker, open: 1, alone: h}
	k := &Lock{h: h}
	runtime.AddCleanup(k, (*crew).forgotten, h.crew)
	return k
}

// beginCrew makes the Locks of a new crew and their common cleanup.
func (c *crews) beginCrew(l *Locker) {
	locks := new([crewMost]Lock)
	c.rest, c.crew = locks[:], &crew{l: l}
	runtime.AddCleanup(locks, (*crew).forgotten, c.crew)
	if !c.watching {
		c.watching = true
		runtime.AddCleanup(&dropped{}, (*Locker).dropLocks, l)
	}
}

// A dropped is garbage at once. So its cleanup runs after the next garbage collection.
type dropped struct{ _ *int }

// dropLocks is called after a garbage collection. It drops the Locks of a crew that are not in use
// yet, because they keep the whole array in memory.
func (l *Locker) dropLocks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crews.rest, l.crews.watching = nil, false
}

// forgotten is the cleanup of a crew. It runs when all Locks of the crew have been
// garbage-collected. So each hold of the crew that is not over was forgotten.
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
