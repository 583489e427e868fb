package padlock

import (
	"runtime"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// If there is an observer, the Locker reports when the program drops a Lock without releasing it.
// The Locker learns that from runtime.AddCleanup. A cleanup for each Lock would add a fifth to the
// time of an acquire from a memstore. So if many locks are taken in quick succession, up to
// maxGroupLocks Locks share one cleanup. These Locks are the elements of one array, and their
// cleanup runs when all of them are garbage.

// cleanupGroup counts the holds whose Locks share one cleanup. Locker.mu guards it. A cleanupGroup
// stays in memory until its cleanup runs. It has no pointers to holds that are over, so that the
// garbage collector can free them earlier.
type cleanupGroup struct {
	l     *Locker
	open  int   // the number of holds in the group that are not over
	alone *hold // the hold, if the group is for one Lock only; nil when the hold is over
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
	since       driver.Instant // when the present period began
	added       int            // how many cleanups were added in this period
	newest      *cleanupGroup  // the newest group that is for several Locks
	unusedLocks []Lock         // the Locks of the newest group that no hold has yet
	watching    bool           // the next garbage collection calls dropLocks
}

// Time is divided into periods. In each period, the first locks get a cleanup of their own. All
// later locks of the period share cleanups.
const (
	groupPeriod    = 100 * time.Millisecond // the length of a period
	maxOwnCleanups = 100                    // how many locks get a cleanup of their own in one period
	maxGroupLocks  = 128                    // how many locks share one cleanup, at most
)

// watchedLock returns the Lock that the program gets for h. A cleanup (runtime.AddCleanup) notices
// if the program drops the Lock without releasing it. The caller of watchedLock holds mu.
func (h *hold) watchedLock() *Lock {
	c := &h.locker.cleanupGroups
	if h.grantedAt.Sub(c.since) > groupPeriod {
		c.since, c.added, c.unusedLocks = h.grantedAt, 0, nil
	}
	if len(c.unusedLocks) == 0 {
		if c.added++; c.added <= maxOwnCleanups {
			return h.lockAlone()
		}
		c.beginGroup(h.locker)
	}
	k := &c.unusedLocks[0]
	c.unusedLocks = c.unusedLocks[1:]
	k.h, h.cleanupGroup = h, c.newest
	c.newest.open++
	return k
}

// lockAlone returns a Lock that has a cleanup of its own.
func (h *hold) lockAlone() *Lock {
	h.cleanupGroup = &cleanupGroup{l: h.locker, open: 1, alone: h}
	k := &Lock{h: h}
	runtime.AddCleanup(k, (*cleanupGroup).forgotten, h.cleanupGroup)
	return k
}

// beginGroup allocates the Locks of a new cleanupGroup, and adds the cleanup that they share.
func (c *cleanupGroups) beginGroup(l *Locker) {
	locks := new([maxGroupLocks]Lock)
	c.unusedLocks, c.newest = locks[:], &cleanupGroup{l: l}
	runtime.AddCleanup(locks, (*cleanupGroup).forgotten, c.newest)
	if !c.watching {
		c.watching = true
		runtime.AddCleanup(&gcSentinel{}, (*Locker).dropLocks, l)
	}
}

// A gcSentinel is garbage as soon as it is made. So its cleanup runs after the next garbage
// collection.
type gcSentinel struct{ _ *int }

// dropLocks is called after a garbage collection. It drops the unused Locks of the newest group.
// The cleanup of a group runs when nothing refers to any Lock of the group. So the unused Locks
// would delay the cleanup as long as the Locker keeps them.
func (l *Locker) dropLocks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanupGroups.unusedLocks, l.cleanupGroups.watching = nil, false
}

// forgotten is the cleanup of a cleanupGroup. It runs when all Locks of the group are garbage. If a
// hold of the group is not over by then, the program has forgotten that hold.
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
	// A cleanup runs outside of the bubble of a test with synctest, and may not close a channel of
	// the bubble. So the channels for which awaitIdle waits are made here.
	for n := l.pending.first; n != nil; n = n.next {
		n.idle = make(chan struct{})
	}
}

func (h *hold) noteForgotten() {
	if h.cause == nil && h.released.Load() == nil && !h.exported && !h.locker.closed {
		h.noteHold(Event{Kind: EventForgotten})
	}
}
