package session

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Manager gives requests their sessions. It is safe for concurrent use; a
// program needs one per kind of session.
type Manager struct {
	store  Store
	traits Traits
	cfg    config

	mu      sync.Mutex
	waiting map[string]int // requests that wait for a session's lock, by key
}

// New returns a Manager of the sessions in store. It does not ask the store; the
// error says which options do not go together.
func New(store Store, opts ...Option) (*Manager, error) {
	if store == nil {
		return nil, errors.New("session: New: store is nil")
	}
	if slices.Contains(opts, nil) {
		return nil, errors.New("session: New: an Option is nil")
	}
	m := &Manager{store: store, traits: store.Traits(), waiting: make(map[string]int)}
	m.cfg = config{
		codec: JSON(), idle: DefaultIdleTimeout, lifetime: DefaultLifetime, wait: DefaultWait,
		maxWaiters: DefaultMaxWaiters, maxSize: DefaultMaxSize, logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		o.applyManager(&m.cfg)
	}
	m.cfg.cookie.setDefaults()
	if err := m.cfg.check(store); err != nil {
		return nil, err
	}
	if p, ok := m.cfg.locks.(*padlockLocks); ok && m.cfg.ids.php {
		p.locker.ShowNames(m.cfg.ids.shown)
	}
	return m, nil
}

// Middleware gives next's requests a session, to be found with From. It stands
// outside of whatever writes answers, compression for example, so that the
// session is saved before the first byte leaves.
func (m *Manager) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := r.Context().Value(contextKey{}).(*Session); ok && s.m == m {
			next.ServeHTTP(w, r) // inside of With
			return
		}
		m.serve(w, r, next, m.cfg.mode)
	})
}

// With is a middleware for one route, in a mode of its own: inside of
// Middleware or instead of it.
//
//	mux.Handle("POST /cart", m.With(session.Exclusive, session.Wait(2*time.Second))(cart))
//
// It panics when the mode needs a Locker and there is none.
func (m *Manager) With(opts ...RouteOption) func(http.Handler) http.Handler {
	set := m.cfg.mode
	for _, o := range opts {
		o.applyRoute(&set)
	}
	if set.needsLock() && m.cfg.locks == nil {
		panic(errNeedsLocker.Error())
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s, ok := r.Context().Value(contextKey{}).(*Session); ok && s.m == m {
				s.setMode(set)
				next.ServeHTTP(w, r)
				return
			}
			m.serve(w, r, next, set)
		})
	}
}

type contextKey struct{}

// From returns the request's session; nothing is loaded yet. Where there is
// none, all methods of what it returns answer ErrNoSession. A context with
// sessions of two Managers has that of the inner one.
func From(ctx context.Context) *Session {
	if s, ok := ctx.Value(contextKey{}).(*Session); ok {
		return s
	}
	return &Session{failed: ErrNoSession, m: nobody, ctx: ctx}
}

// nobody manages sessions that are not there.
var nobody = &Manager{cfg: config{codec: JSON(), logger: slog.New(slog.DiscardHandler)}}

// ttl is how long a session lives from now.
func (m *Manager) ttl(deadline time.Time) time.Duration {
	ttl := m.cfg.idle
	if !deadline.IsZero() {
		left := max(time.Until(deadline), 1)
		if ttl == 0 || left < ttl {
			ttl = left
		}
	}
	return ttl
}

// newDeadline is the end of a session that is made now.
func (m *Manager) newDeadline() time.Time {
	if m.cfg.lifetime == 0 {
		return time.Time{}
	}
	return time.Now().Add(m.cfg.lifetime).Truncate(time.Millisecond)
}
