package padlock

import (
	"log/slog"
	"runtime"
	"sync"
)

// If there is an observer, the Locker reports when the program drops a Lock without releasing it.
// It learns that from runtime.AddCleanup. Without an observer, it watches the first of sampleEvery
// locks only, and logs it to slog.Default, once for each name.
const (
	sampleEvery = 64

	// maxForgotten limits the names that a Locker logs, so that they do not fill the memory.
	maxForgotten = 64
)

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
		if h.events == nil {
			l.logForgotten(withoutSlot(h.name))
		}
	}
	// A cleanup runs outside of the bubble of a test with synctest, and may not close a channel of
	// the bubble. So the channels for which awaitIdle waits are made here.
	for n := l.pending.first; n != nil; n = n.next {
		n.idle = make(chan struct{})
	}
}

// logForgotten logs in a goroutine of its own, because a log that hangs must stop no cleanup. The
// caller holds mu.
func (l *Locker) logForgotten(name string) {
	if l.forgotten[name] || len(l.forgotten) >= maxForgotten {
		return
	}
	if l.forgotten == nil {
		l.forgotten = make(map[string]bool)
	}
	l.forgotten[name] = true
	if show := l.shown.Load(); show != nil {
		name = (*show)(name)
	}
	go slog.Warn("padlock: a Lock was garbage-collected without Release, and its name stays locked; call Release, or use Do",
		"name", name, "store", l.guarantees.Store)
}

// unclosed has the kinds of stores that logUnclosed has logged.
var unclosed sync.Map

// logUnclosed is the cleanup of a Locker that owns its store. It logs once for each kind of store.
func logUnclosed(store string) {
	if _, logged := unclosed.LoadOrStore(store, true); !logged {
		go slog.Warn("padlock: a Locker was garbage-collected without Close, so its store stays open; call Close, and use one Locker for each store",
			"store", store)
	}
}
