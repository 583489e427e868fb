package padlock

import (
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// If there is an observer, the Locker reports when the program drops a Lock without releasing it.
// The Locker learns that from runtime.AddCleanup. One AddCleanup takes a fifth of the time that an
// acquire from a memstore takes. So if many locks are taken in quick succession, up to
// maxGroupLocks Locks share one cleanup. These Locks are the elements of one array, and their
// cleanup runs when all of them are garbage.

// cleanupGroup counts the holds whose Locks share one cleanup. Locker.mu guards it. A cleanupGroup
// stays in memory until its cleanup runs. It has no pointers to holds that are over, so that the
// garbage collector can free them earlier.
type cleanupGroup struct {
	l     *Locker
	open  int   // how many holds of the group are not over
	alone *hold // the hold of the Lock, if the group has one Lock only; nil when it is over
}

// leaveCleanupGroup removes h from its cleanupGroup. It is called when h is over. The caller holds
// mu.
func (h *hold) leaveCleanupGroup() {
	if h.cleanupGroup != nil {
		h.cleanupGroup.open--
		h.cleanupGroup.alone, h.cleanupGroup = nil, nil
	}
}

// cleanupGroups decides which Locks of a Locker share a cleanup. Locker.mu guards it.
type cleanupGroups struct {
	since        driver.Instant // when the present period began
	taken        int            // how many times a lock needed a new cleanup in this period
	cleanupGroup *cleanupGroup  // the newest group of several Locks
	rest         []Lock         // those Locks of the newest group that are still unused
	watching     bool           // the next garbage collection calls dropLocks
}

// Time is divided into periods. In each period, the first locks get a cleanup of their own. All
// later locks of the period share cleanups.
const (
	groupPeriod    = 100 * time.Millisecond // the length of a period
	maxOwnCleanups = 100                    // how many locks get a cleanup of their own in one period
	maxGroupLocks  = 128                    // how many locks share one cleanup, at most
)

// watchedHandle returns the Lock that the program gets for h. A cleanup (runtime.AddCleanup)
// notices if the program drops the Lock without releasing it. The caller of watchedHandle holds mu.
func (h *hold) watchedHandle() *Lock {
	c := &h.locker.cleanupGroups
	if h.grantedAt.Sub(c.since) > groupPeriod {
		c.since, c.taken, c.rest = h.grantedAt, 0, nil
	}
	if len(c.rest) == 0 {
		if c.taken++; c.taken <= maxOwnCleanups {
			return h.handleAlone()
		}
		c.beginGroup(h.locker)
	}
	k := &c.rest[0]
	c.rest = c.rest[1:]
	k.h, h.cleanupGroup = h, c.cleanupGroup
	c.cleanupGroup.open++
	return k
}

// handleAlone returns a Lock that has a cleanup of its own.
func (h *hold) handleAlone() *Lock {
	h.cleanupGroup = &cleanupGroup{l: h.locker, open: 1, alone: h}
	k := &Lock{h: h}
	runtime.AddCleanup(k, (*cleanupGroup).forgotten, h.cleanupGroup)
	return k
}

// beginGroup allocates the Locks of a new cleanupGroup, and adds the cleanup that they share.
func (c *cleanupGroups) beginGroup(l *Locker) {
	locks := new([maxGroupLocks]Lock)
	c.rest, c.cleanupGroup = locks[:], &cleanupGroup{l: l}
	runtime.AddCleanup(locks, (*cleanupGroup).forgotten, c.cleanupGroup)
	if !c.watching {
		c.watching = true
		runtime.AddCleanup(&gcSentinel{}, (*Locker).dropLocks, l)
	}
}

// A gcSentinel is garbage as soon as it is made. So its cleanup runs after the next garbage
// collection.
type gcSentinel struct{ _ *int }

// dropLocks is called after a garbage collection. The Locks of a cleanupGroup are in one array, and
// the group's cleanup runs when nothing refers to the array any more. The Locker itself refers to
// the unused Locks of the newest group. So dropLocks drops these unused Locks, and the cleanup can
// run when the other Locks of the group are garbage.
func (l *Locker) dropLocks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanupGroups.rest, l.cleanupGroups.watching = nil, false
}

// forgotten is the cleanup of a cleanupGroup. It runs when all Locks of the group have been
// garbage-collected. So the program has forgotten every hold of the group that is not over yet.
func (c *cleanupGroup) forgotten() {
	l := c.l
	l.mu.Lock()
	defer l.unlock()
	switch {
	case c.open == 0:
	case c.alone != nil:
		c.alone.noteForgotten()
	default:
		for _, e := range l.renewer.heap {
			if e.h.cleanupGroup == c {
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
