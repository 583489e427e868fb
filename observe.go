package padlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// An Observer gets the events of a Locker, for metrics, traces and logs.
//
// ctx has the values of the context that the caller gave to Acquire, and those that a
// ContextObserver added to it. After the acquire, ctx no longer ends when the caller's context
// ends.
//
// The events of one acquire, and of the hold that it takes, are delivered one at a time, in the
// order in which they happened. The order does not depend on the store. Events of different
// locks may be delivered at the same time.
// EventReleasing is delivered before the release is sent. So EventReleasing precedes the
// EventAcquired of the next holder, even if that holder is in another process. When a method that
// takes or releases a lock returns, its events have been delivered.
//
// Observe is called by the goroutine in which the event happened, and that goroutine waits until
// Observe returns. So Observe must return soon, and must not take or release locks of the same
// Locker. The events of renewals and clean-ups come from goroutines of their own: an Observe that
// does not return delays other events, but no renewal and no clean-up. If an observer is 100 events
// late for a lock, further renewals of that lock are left out. If Observe panics, the Locker logs
// the panic with its stack, to the Logger or else to slog.Default, and never calls this Observer
// again. A fault in a metric must not make a program lose its lock.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc makes a function an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// A ContextObserver is an Observer that can add values, such as a span, to the contexts of
// acquires, holds and releases when they begin.
type ContextObserver interface {
	Observer

	// ObserveStart is called, instead of Observe, for EventAcquiring, EventAcquired and
	// EventReleasing. A later version may call ObserveStart for other events with which something
	// begins. ObserveStart must return ctx or a context that descends from ctx. The returned
	// context is used as follows:
	//
	//   - EventAcquiring: for the requests to the store, and for all later events;
	//   - EventAcquired: as the parent of Lock.Context, and so of the context of the function that
	//     Do runs;
	//   - EventReleasing: as the source of the context values for the requests that release the
	//     lock.
	ObserveStart(ctx context.Context, e Event) context.Context
}

// watcher is one Observer of a Locker, with its state.
type watcher struct {
	observer Observer
	starts   ContextObserver // the observer, if it is a ContextObserver; otherwise nil
	log      *slog.Logger    // where the observer logs, if Logger made the observer; otherwise nil
	failed   atomic.Bool     // the observer has panicked
}

// notify calls the observer with e. It returns the context for the next events: ctx, or the context
// that ObserveStart has derived from it.
func (w *watcher) notify(l *Locker, ctx context.Context, e *Event) (derived context.Context) {
	derived = ctx
	if w.failed.Load() {
		return ctx
	}
	defer w.recovered(l)
	switch {
	case w.starts == nil || !e.Kind.starts():
		w.observer.Observe(ctx, *e)
	default:
		if c := w.starts.ObserveStart(ctx, *e); c != nil {
			derived = c
		}
	}
	return derived
}

// recovered must be deferred. If the observer panics, recovered logs that, and the observer gets no
// more events.
func (w *watcher) recovered(l *Locker) {
	if p := recover(); p != nil && !w.failed.Swap(true) {
		w.logPanic(l, p, string(debug.Stack()))
	}
}

func (w *watcher) logPanic(l *Locker, p any, stack string) {
	l.panicLog().Error("padlock: an observer panicked and gets no more events",
		"observer", fmt.Sprintf("%T", w.observer), "panic", fmt.Sprint(p), "stack", stack)
}

// panicLog returns the log to which the panic of an observer is written.
func (l *Locker) panicLog() *slog.Logger {
	for _, w := range l.cfg.observers {
		if w.log != nil {
			return w.log
		}
	}
	return slog.Default()
}

// traceOf returns the traceparent of ctx, which other clients can see. It returns "" if there is
// none, or if it is too long.
func (l *Locker) traceOf(ctx context.Context) string {
	if text := l.cfg.trace(ctx); len(text) <= driver.MaxTrace {
		return text
	}
	return ""
}

// addsValues reports whether an observer can add values to contexts.
func (l *Locker) addsValues() bool {
	return slices.ContainsFunc(l.cfg.observers, func(w *watcher) bool { return w.starts != nil })
}

// logObserver writes events to a log.
type logObserver struct{ *slog.Logger }

// Observe implements Observer. It logs how an acquire or a release ended, but not that it began,
// because the event at the end says more.
func (o logObserver) Observe(ctx context.Context, e Event) {
	level := e.Kind.level()
	if e.Kind == EventAcquiring || e.Kind == EventReleasing || !o.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("name", e.Name), slog.String("store", e.Store), slog.String("mode", e.Mode.String()),
		slog.Uint64("fence", e.Fence),
	}
	if e.Outcome != OutcomeNone {
		attrs = append(attrs, slog.String("outcome", e.Outcome.String()))
	}
	if e.Took != 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Kind == EventRenewed || e.Kind == EventRenewFailed {
		attrs = append(attrs, slog.Duration("slack", e.Slack))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	o.LogAttrs(ctx, level, "padlock: "+e.Kind.String(), attrs...)
}

// An eventQueue delivers the events of one acquire and of its hold, in order and one at a time. It
// exists only if there is an observer.
type eventQueue struct {
	l    *Locker
	name string

	// Guarded by Locker.mu.
	ctx    context.Context // passed to the observers
	mode   Mode            // the mode of the acquire; a hold has a mode of its own
	queue  []Event
	room   [1]Event      // memory for a queue of one event
	next   *eventQueue   // in the list Locker.pending
	busy   bool          // a goroutine is delivering events, or is about to do so in unlock
	idle   chan struct{} // made by awaitIdle, or by forgotten; closed when busy becomes false
	paused bool          // keep events in the queue until EventAcquired has been delivered
	noHold bool          // drop the events of the hold; see forgetHold
	result error         // what the function of Do returned
	held   time.Duration // how long the lock was held
}

// newEvents makes the eventQueue of a new acquire and delivers EventAcquiring. It returns the
// eventQueue, and the context to use in this acquire.
func (l *Locker) newEvents(ctx context.Context, name string, mode Mode) (*eventQueue, context.Context) {
	n := &eventQueue{l: l, name: name, mode: mode}
	ctx = l.publish(ctx, &Event{Kind: EventAcquiring, Store: l.guarantees.Store, Name: n.name, Mode: mode})
	n.ctx, n.queue = ctx, n.room[:0]
	return n, ctx
}

// noteEvent puts e into the queue. The caller holds mu, and must call unlock, which delivers e. If
// another goroutine is delivering the events of this queue, that goroutine delivers e. n may be
// nil.
func (n *eventQueue) noteEvent(e Event) {
	switch {
	case n == nil:
		return
	case len(n.queue) >= mostBehind && (e.Kind == EventRenewed || e.Kind == EventRenewFailed):
		return // an observer is so late that these events would fill the memory
	}
	e.Store, e.Name = n.l.guarantees.Store, n.name
	n.queue = append(n.queue, e)
	if !n.busy && !n.paused {
		n.busy = true
		n.l.pending.add(n)
	}
}

// mostBehind is how many events wait for an observer before renewals are left out.
const mostBehind = 100

// eventQueues is a linked list of eventQueues.
type eventQueues struct{ first, last *eventQueue }

func (q *eventQueues) add(n *eventQueue) {
	if q.first == nil {
		q.first = n
	} else {
		q.last.next = n
	}
	q.last = n
}

// noteCall puts e into the queue. It is for the events of an acquire. The caller holds mu.
func (n *eventQueue) noteCall(e Event) {
	if n != nil {
		e.Mode = n.mode
		n.noteEvent(e)
	}
}

// noteHold puts e into the queue of h. It is for the events of a hold. The caller holds mu.
func (h *hold) noteHold(e Event) {
	if h.events != nil && !h.events.noHold && (!h.told || e.Kind == EventReleased) {
		e.Mode, e.Fence = modeOf(h.shared), h.fence
		h.events.noteEvent(e)
	}
}

// unlockAndDeliver unlocks mu after it has delivered the events. It is not a part of unlock, so
// that unlock is small. Most calls of unlock have no events to deliver.
func (l *Locker) unlockAndDeliver() {
	defer l.mu.Unlock()
	l.deliverPending()
}

// unlockDelivered is like unlock, but it also waits until all events that are now in n have been
// delivered. It returns the context for the next event of n.
func (l *Locker) unlockDelivered(n *eventQueue) context.Context {
	defer l.mu.Unlock()
	l.deliverPending()
	return n.awaitDelivery()
}

// unlockApart unlocks mu. Another goroutine delivers the events that were noted while mu was held,
// and closes the returned channel. The channel is nil if there is no event. unlockApart is for the
// workers of the renewer and the cleaner, on which other locks depend: an observer must not delay
// them.
func (l *Locker) unlockApart() (delivered chan struct{}) {
	n := l.pending.first
	l.pending = eventQueues{}
	l.mu.Unlock()
	if n == nil {
		return nil
	}
	delivered = make(chan struct{})
	go func() {
		defer close(delivered)
		l.mu.Lock()
		defer l.mu.Unlock()
		n.deliverAll()
	}()
	return delivered
}

// deliverPending delivers the events that were noted while mu was held. The caller holds mu.
// deliverPending unlocks mu while it calls observers, and locks mu again before it returns.
func (l *Locker) deliverPending() {
	n := l.pending.first
	l.pending = eventQueues{}
	n.deliverAll()
}

// deliverAll delivers the events of n, and of the queues behind n in the list Locker.pending. The
// caller holds mu, as in deliverPending.
func (n *eventQueue) deliverAll() {
	for n != nil {
		next := n.next
		n.next = nil
		n.deliver()
		n = next
	}
}

// deliver calls the observers until the queue is empty. The caller has set busy and holds mu.
// deliver unlocks mu while it calls observers. It locks mu again before it returns, even if an
// observer calls runtime.Goexit.
func (n *eventQueue) deliver() {
	locked := true
	defer func() {
		if !locked {
			n.l.mu.Lock()
		}
		n.deliveryOver()
	}()
	for len(n.queue) > 0 && !n.paused {
		due, ctx := n.queue, n.ctx
		n.queue, locked = nil, false
		n.l.mu.Unlock()
		for i := range due {
			after := n.l.publish(ctx, &due[i])
			if due[i].Kind.starts() {
				ctx = after
			}
		}
		n.l.mu.Lock()
		n.ctx, locked = ctx, true
		if n.queue == nil { // reuse the memory
			clear(due)
			n.queue = due[:0]
		}
	}
}

// deliveryOver ends a delivery. The caller holds mu.
func (n *eventQueue) deliveryOver() {
	n.busy = false
	if n.idle != nil {
		close(n.idle)
		n.idle = nil
	}
}

// observerPatience is how long a call waits for observers that are busy with earlier events of the
// same lock. An observer must not release the lock whose event it is handling. If it does, Release
// waits for the observer, and the observer waits for Release. observerPatience ends that deadlock.
const observerPatience = time.Second

// awaitDelivery waits until all events so far are delivered, and returns the context for the next
// event. The caller holds mu. awaitDelivery unlocks mu while it waits, and locks mu again before it
// returns.
func (n *eventQueue) awaitDelivery() context.Context {
	for waited := true; waited && (n.busy || len(n.queue) > 0 && !n.paused); {
		if n.busy {
			waited = n.awaitIdle()
			continue
		}
		n.busy = true
		n.deliver()
	}
	return n.ctx
}

// awaitIdle waits until no goroutine is delivering events of this queue. It returns false if that
// takes longer than observerPatience. After the first time, Close does not wait again, for it may
// have thousands of locks to release. The caller holds mu. awaitIdle unlocks mu while it waits, and
// locks mu again before it returns.
func (n *eventQueue) awaitIdle() bool {
	if n.idle == nil {
		n.idle = make(chan struct{})
	}
	idle := n.idle
	if n.l.closed && n.l.observersLate {
		return false
	}
	n.l.mu.Unlock()
	patience := time.NewTimer(observerPatience)
	defer patience.Stop()
	inTime := true
	select {
	case <-idle:
	case <-patience.C:
		inTime = false
	}
	n.l.mu.Lock()
	n.l.observersLate = n.l.observersLate || !inTime
	return inTime
}

// announce delivers EventAcquired, and then the later events of the hold. It returns the context
// for the hold. The caller holds mu. announce unlocks mu while it calls observers, and locks it
// again before it returns.
func (n *eventQueue) announce(first *Event) context.Context {
	n.paused = false
	first.Outcome = OutcomeAcquired
	first.Store, first.Name = n.l.guarantees.Store, n.name
	n.queue = slices.Insert(n.queue, 0, *first)
	ctx := n.awaitDelivery()
	n.detach()
	return ctx
}

// detach replaces the context for later events by one that never ends. The caller holds mu.
func (n *eventQueue) detach() {
	if n.ctx.Done() != nil {
		n.ctx = context.WithoutCancel(n.ctx)
	}
}

// forgetHold is called if the lock was granted when the caller had already given up. It drops the
// events of the hold that are in the queue, except those of clean-ups. It also makes noteHold drop
// all later events of the hold. The caller holds mu.
func (n *eventQueue) forgetHold() {
	n.paused, n.noHold = false, true
	n.queue = slices.DeleteFunc(n.queue, func(e Event) bool {
		return e.Kind != EventUncertain && e.Kind != EventCleaned && e.Kind != EventDropped
	})
}

// publish calls all observers. It returns the context for later events: ctx, or a context that the
// observers have derived from it.
func (l *Locker) publish(ctx context.Context, e *Event) context.Context {
	if show := l.shown.Load(); show != nil {
		e.Name = (*show)(e.Name)
		if err, ok := e.Err.(*Error); ok {
			e.Err = &Error{err.Op, e.Name, err.Err}
		}
	}
	for _, w := range l.cfg.observers {
		ctx = w.notify(l, ctx, e)
	}
	return ctx
}
