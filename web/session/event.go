package session

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind string

// The kinds of events. Each kind says which fields of its Event are set. No event holds an id or a
// value of a session.
const (
	// EventLoaded: the session was loaded from the store. Took is set.
	EventLoaded EventKind = "loaded"
	// EventWaited: the request waited for the session's lock. Took and Err are set.
	EventWaited EventKind = "waited"
	// EventSaved: the store was asked to commit. Took and Err are set.
	EventSaved EventKind = "saved"
	// EventConflict: another request changed keys that this request needs unchanged. The answer is
	// 409, or RetryConflicts lets the handler run again. Err names the keys.
	EventConflict EventKind = "conflict"
	// EventFailed: the session could not be loaded or saved, or a write was refused. The Manager
	// has replaced the handler's answer, unless that answer was an error itself. Err is set.
	EventFailed EventKind = "failed"
	// EventLost: a write came too late, because the answer had begun, or the answer did not go
	// through the session's ResponseWriter. Err is set, and Key if one key was to be written.
	EventLost EventKind = "lost"
	// EventLockLost: the lock ended before it was released. Normally the conditions of the
	// commit still protect the session. But if sessionstore.Traits.CommitsNeedLock is true,
	// another program may have changed the session, and the commit may fail. Err is set.
	EventLockLost EventKind = "lock-lost"
	// EventUnlocked: the session is saved without the lock, because the lock store cannot be
	// reached. Err is set.
	EventUnlocked EventKind = "unlocked"
	// EventOldID: a client sent an id from before Regenerate.
	EventOldID EventKind = "old-id"
	// EventInPlace: the handler changed a value in place without calling Put. This event comes only
	// with the option Development. Key is set.
	EventInPlace EventKind = "in-place"
	// EventDestroyed: the session was destroyed.
	EventDestroyed EventKind = "destroyed"
	// EventCreated: a session was made; its cookie goes out with the answer.
	EventCreated EventKind = "created"
	// EventUnreadable: a stored session could not be read, and was ignored because of the option
	// DiscardUnreadable. Err is set.
	EventUnreadable EventKind = "unreadable"
)

// Event is one thing that happened, for metrics.
type Event struct {
	Kind EventKind
	Key  string // only with EventInPlace and EventLost
	Took time.Duration
	Err  error
}

var loud = map[EventKind]slog.Level{
	EventFailed: slog.LevelError, EventLost: slog.LevelError,
	EventLockLost: slog.LevelWarn, EventInPlace: slog.LevelWarn, EventUnreadable: slog.LevelWarn,
	EventOldID: slog.LevelInfo, EventUnlocked: slog.LevelInfo,
}

// event reports e with the context of the request, so that a log can name the request's trace.
func (s *state) event(ctx context.Context, e Event) {
	m := s.m
	for _, f := range m.cfg.onEvent {
		f(ctx, e)
	}
	if level, ok := loud[e.Kind]; ok {
		var attrs []slog.Attr
		if r := s.request; r != nil {
			attrs = append(attrs, slog.String("route", cmp.Or(r.Pattern, r.Method+" "+r.URL.Path)))
		}
		if e.Key != "" {
			attrs = append(attrs, slog.String("key", e.Key))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		m.cfg.logger.LogAttrs(ctx, level, "session: "+string(e.Kind), attrs...)
	}
}
