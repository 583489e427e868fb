package padlock

import "runtime"

// If there is an observer, the Locker reports when the program drops a Lock without releasing it.
// It learns that from runtime.AddCleanup.

// A watched is what the cleanup of a Lock knows. h is nil when the hold is over, so that the
// garbage collector can free the hold before the Lock. Locker.mu guards it.
type watched struct {
	l *Locker
	h *hold
}

// watchedLock returns the Lock that the program gets for h. The caller holds mu.
func (h *hold) watchedLock() *Lock {
	h.watched = &watched{h.locker, h}
	k := &Lock{h: h}
	runtime.AddCleanup(k, (*watched).forgotten, h.watched)
	return k
}

// leaveWatch is called when h is over. The caller holds mu.
func (h *hold) leaveWatch() {
	if h.watched != nil {
		h.watched.h, h.watched = nil, nil
	}
}

// forgotten is the cleanup of a Lock. If its hold is not over by then, the program has forgotten
// it.
func (c *watched) forgotten() {
	l := c.l
	l.mu.Lock()
	defer l.unlock()
	if h := c.h; h != nil && h.cause == nil && h.released.Load() == nil && !h.exported && !l.closed {
		h.noteHold(Event{Kind: EventForgotten})
	}
	// A cleanup runs outside of the bubble of a test with synctest, and may not close a channel of
	// the bubble. So the channels for which awaitIdle waits are made here.
	for n := l.pending.first; n != nil; n = n.next {
		n.idle = make(chan struct{})
	}
}
