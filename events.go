package padlock

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind int

const (
	// EventAcquired: a lock was granted. Event.Took is how long that took.
	EventAcquired EventKind = iota
	// EventContended: somebody else holds the name, and this caller waits or
	// gives up. Err is the *HeldError, or nil if the caller stands in line behind
	// others of its Locker and has not asked the store.
	EventContended
	// EventRefused: an Acquire failed; Err says why.
	EventRefused
	// EventRenewed: a lease was renewed.
	EventRenewed
	// EventRenewFailed: a renewal got no answer; it is tried again until the
	// lease ends. Err says why.
	EventRenewFailed
	// EventLost: a lock ended before its Release, against the caller's will. Err
	// is ErrLost or ErrExpired.
	EventLost
	// EventReleased: Release was called. Took is how long the lock was held;
	// Err is what Release returned.
	EventReleased
	// EventUncertain: an acquire or a release got no answer, and is cleaned up
	// in the background.
	EventUncertain
	// EventCleaned: a clean-up was confirmed by the store.
	EventCleaned
	// EventDropped: a clean-up was given up; what it was for lapses with its
	// lease.
	EventDropped
	// EventForgotten: a Lock was collected as garbage without Release or Export.
	// It stays held and renewed until its MaxHold or Locker.Close.
	EventForgotten
	// EventEnded: a lock ended before its Release, as its options say: the time
	// of MaxHold was over (Err is ErrMaxHold), or the lease ran out under
	// NoRenewal (Err is ErrLost or ErrExpired).
	EventEnded
)

var eventNames = [...]string{
	"acquired", "contended", "refused", "renewed", "renewal failed",
	"lost", "released", "uncertain", "cleaned up", "clean-up dropped", "forgotten", "ended",
}

// String returns the event's name, as it appears in logs.
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return eventNames[k]
}

// Event is something that happened to a lock, for metrics and logs.
type Event struct {
	Kind   EventKind
	Name   string
	Shared bool
	Fence  uint64 // 0 where there is no grant, or no fence
	Took   time.Duration
	Err    error
}

// Stats counts what happened in a Locker since New.
type Stats struct {
	Held, Waiting                        int    // now
	Acquired, Contended, Refused         uint64 // calls
	Renewals, RenewalErrors              uint64
	Lost                                 uint64 // as EventLost says
	Uncertain, CleanUps, CleanUpsDropped uint64 // CleanUps: begun and not ended
}

// counters is guarded by Locker.mu.
type counters struct {
	tokens                       uint64
	waiting                      int
	acquired, contended, refused uint64
	renewals, renewalErrors      uint64
	lost, uncertain, dropped     uint64
	pending                      []Event // to be published when mu is given up
}

// Stats returns the counts as they stand.
func (l *Locker) Stats() Stats {
	l.mu.Lock()
	defer l.unlock()
	s := &l.stats
	return Stats{
		Held: len(l.renewer.heap), Waiting: s.waiting,
		Acquired: s.acquired, Contended: s.contended, Refused: s.refused,
		Renewals: s.renewals, RenewalErrors: s.renewalErrors, Lost: s.lost,
		Uncertain: s.uncertain, CleanUps: uint64(l.cleaner.open), CleanUpsDropped: s.dropped,
	}
}

// event notes what happened to h. The caller holds mu.
func (l *Locker) event(kind EventKind, h *hold, err error) {
	if l.cfg.onEvent != nil || level(kind) > slog.LevelDebug {
		l.note(Event{Kind: kind, Name: h.name, Shared: h.shared, Fence: h.fence, Err: err})
	}
}

// note keeps e until mu is given up. The caller holds mu.
func (l *Locker) note(e Event) {
	if l.cfg.onEvent != nil || level(e.Kind) > slog.LevelDebug {
		l.stats.pending = append(l.stats.pending, e)
	}
}

// unlock gives mu up and publishes what was noted under it.
func (l *Locker) unlock() {
	if l.stats.pending == nil {
		l.mu.Unlock()
		return
	}
	events := l.stats.pending
	l.stats.pending = nil
	l.mu.Unlock()
	for i := range events {
		l.publish(&events[i])
	}
}

// ShowNames makes l write show(name) in its log and its events instead of a
// name, for names that hold secrets. Given more than once, the functions are
// called one after the other. They must be quick and safe for concurrent use.
func (l *Locker) ShowNames(show func(name string) string) {
	l.mu.Lock()
	defer l.unlock()
	if before := l.shown.Load(); before != nil {
		after := show
		show = func(name string) string { return after((*before)(name)) }
	}
	l.shown.Store(&show)
}

func (l *Locker) publish(e *Event) {
	if show := l.shown.Load(); show != nil {
		e.Name = (*show)(e.Name)
		if err, ok := e.Err.(*Error); ok {
			e.Err = &Error{err.Op, e.Name, err.Err}
		}
	}
	if l.cfg.onEvent != nil {
		l.cfg.onEvent(*e)
	}
	if at := level(e.Kind); at > slog.LevelDebug {
		l.cfg.logger.LogAttrs(context.Background(), at, "padlock: "+e.Kind.String(),
			slog.String("name", e.Name), slog.Uint64("fence", e.Fence), slog.Any("error", e.Err))
	}
}

// level is how loud an event is in the log; the everyday ones are not logged.
func level(k EventKind) slog.Level {
	switch k {
	case EventLost, EventDropped:
		return slog.LevelError
	case EventRenewFailed, EventUncertain, EventForgotten:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}
