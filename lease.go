package padlock

import (
	"time"

	"github.com/padlock-go/padlock/driver"
)

// This file has the end of a hold, and what is left of its lease.

// endHold ends h for the given reason, if h is not over already. The caller holds mu.
func (l *Locker) endHold(h *hold, why error) {
	if h.cause != nil {
		return
	}
	h.cause = why
	if why != ErrReleased && !h.hidden && h.endKind(why) == EventLost {
		l.stats.lost++
	}
	if h.events != nil {
		h.leaveWatch()
		if !h.told {
			h.noteEnd(why)
		}
	}
	h.usable.Store(0)
	if h.index >= 0 {
		l.renewer.heap.remove(h)
	}
	if h.hidden {
		l.renewer.hidden--
	}
	if h.bond != nil {
		h.bond.unwatch()
	}
	if h.cancel != nil {
		h.cancel(failed(OpHold, h.name, why))
	}
	l.unlist(h)
}

// endKind is the kind of the event that reports the end of h.
func (h *hold) endKind(why error) EventKind {
	switch {
	case why == ErrReleased:
		return EventReleasing
	case why == ErrMaxHold || why == ErrClosed || h.noRenewal && h.ranOut():
		return EventEnded
	}
	return EventLost
}

// ranOut reports whether the lease of h is over. Only renewals that the store has confirmed count.
func (h *hold) ranOut() bool { return h.locker.clock.Now() >= driver.Instant(h.usable.Load()) }

// noteEnd puts the event that reports the end of h into the queue.
func (h *hold) noteEnd(why error) {
	e := Event{Kind: h.endKind(why), Outcome: holdOutcome(why), Took: h.locker.clock.Now().Sub(h.grantedAt)}
	if e.Kind != EventReleasing {
		e.Err = why
	} else {
		e.Err = h.events.result
	}
	if e.Outcome == OutcomeLost && h.ranOut() {
		e.Outcome = OutcomeExpired
	}
	h.events.held = e.Took
	h.noteHold(e)
}

// remaining implements Lock.Remaining.
func (h *hold) remaining() time.Duration {
	switch usable := driver.Instant(h.usable.Load()); usable {
	case 0:
		return 0
	case farFuture:
		return 1<<63 - 1
	default:
		if h.noRenewal && h.locker.isClosed() { // Close does not find h if h is unwatched
			return 0
		}
		return max(0, usable.Sub(h.locker.clock.Now()))
	}
}

// isClosed reports whether the first Close is done.
func (l *Locker) isClosed() bool {
	select {
	case <-l.closeDone:
		return true
	default:
		return false
	}
}
