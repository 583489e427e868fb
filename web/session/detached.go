package session

import (
	"context"
	"time"

	"github.com/padlock-go/padlock/web/session/internal/standing"
)

// Load returns the session with an id that did not come in a cookie: from the header of a mobile
// client, from the metadata of a gRPC call, or from a job. token is what Session.Token has
// returned, or "" for a new session. Nothing is loaded yet. As with a cookie, an unknown id is
// never adopted.
//
// There is no answer that saves the session. The caller calls Commit, and then sends Session.Token
// to the client if it has changed. Without Commit nothing is saved. If the caller does not commit,
// it calls Abandon, which releases a lock. The deadline of ctx bounds waits for the lock.
func (m *Manager) Load(ctx context.Context, token string) *Session {
	s := m.detached(ctx)
	if m.rules.ValidID(token) {
		s.seek(token)
		s.sent = token
	}
	return newSession(s, ctx)
}

// detached returns the state of a session that belongs to no request.
func (m *Manager) detached(ctx context.Context) *state {
	s := &state{m: m, started: time.Now(), set: m.cfg.set}
	s.deadline, _ = ctx.Deadline()
	return s
}

// Token returns the session's id, which is a secret of the client. It is "" if there is no session:
// before the first Commit, after Destroy, or if UserSessions returned the session. Regenerate
// changes it.
func (h *Session) Token() string {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Is(standing.Destroyed) {
		return ""
	}
	return s.ID()
}

// NewContext returns a context in which From finds s. In a test, a handler can so be called without
// a Manager's Middleware:
//
//	s := sessions.Load(ctx, "")
//	s.Put("user", 42)
//	handler.ServeHTTP(w, r.WithContext(session.NewContext(r.Context(), s)))
//	// s has what the handler wrote; s.Commit saves it
//
// If the handler is inside of Middleware, the Middleware uses s, too, and does not save it.
func NewContext(ctx context.Context, s *Session) context.Context {
	of, _ := s.open()
	return carry(ctx, of)
}
