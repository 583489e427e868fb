package session

import (
	"context"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind string

// The kinds of events. None holds ids or values of a session.
const (
	EventLoaded    EventKind = "loaded"    // from the store; Took
	EventWaited    EventKind = "waited"    // for the lock; Took, Err
	EventSaved     EventKind = "saved"     // Took, Err
	EventConflict  EventKind = "conflict"  // 409, or the handler runs again; Err names the keys
	EventFailed    EventKind = "failed"    // the answer was replaced; Err
	EventLost      EventKind = "lost"      // writes came too late: the answer had begun; Err
	EventLockLost  EventKind = "lock-lost" // before it was released; Err. Conditions protect the commit, or it fails
	EventUnlocked  EventKind = "unlocked"  // saved without the lock, whose store cannot be reached; Err
	EventOldID     EventKind = "old-id"    // a client sent an id from before Regenerate
	EventInPlace   EventKind = "in-place"  // Development: Key was changed and not put
	EventDestroyed EventKind = "destroyed" // by Destroy
	EventCreated   EventKind = "created"   // and a cookie sent
	// EventUnreadable: DiscardUnreadable made a stored session count as absent; Err.
	EventUnreadable EventKind = "unreadable"
)

// Event is one thing that happened, for metrics.
type Event struct {
	Kind EventKind
	Key  string // of EventInPlace
	Took time.Duration
	Err  error
}

var loud = map[EventKind]slog.Level{
	EventFailed: slog.LevelError, EventLost: slog.LevelError,
	EventLockLost: slog.LevelWarn, EventInPlace: slog.LevelWarn, EventUnreadable: slog.LevelWarn,
	EventOldID: slog.LevelInfo, EventUnlocked: slog.LevelInfo,
}

// event reports e, with the context of the request, so that a log can name its
// trace.
func (s *state) event(ctx context.Context, e Event) {
	m := s.m
	for _, f := range m.cfg.onEvent {
		f(ctx, e)
	}
	if level, ok := loud[e.Kind]; ok {
		var attrs []slog.Attr
		if e.Key != "" {
			attrs = append(attrs, slog.String("key", e.Key))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		m.cfg.logger.LogAttrs(ctx, level, "session: "+string(e.Kind), attrs...)
	}
}
