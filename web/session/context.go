package session

import (
	"context"
	"log/slog"

	"github.com/padlock-go/padlock/web/internal/jsoncodec"
)

// carried is what a request's context knows: its sessions, the innermost first. The context has a
// func that returns it, because no printer can look into a func.
type carried struct {
	s     *state
	outer *carried
}

type contextKey struct{}

func sessionsIn(ctx context.Context) *carried {
	if c, ok := ctx.Value(contextKey{}).(func() *carried); ok {
		return c()
	}
	return nil
}

// carry returns ctx with s as its innermost session.
func carry(ctx context.Context, s *state) context.Context {
	outer := sessionsIn(ctx)
	if outer != nil && outer.s == s {
		return ctx
	}
	c := &carried{s, outer}
	return context.WithValue(ctx, contextKey{}, func() *carried { return c })
}

// find returns m's session in ctx, or nil.
func (m *Manager) find(ctx context.Context) *state {
	for c := sessionsIn(ctx); c != nil; c = c.outer {
		if c.s.m == m {
			return c.s
		}
	}
	return nil
}

// From returns the session of the request that ctx belongs to. It loads nothing: the first use
// loads the session with ctx, see Session. If there is no session, all methods return ErrNoSession.
// If a program has several Managers, From returns the session of the Manager whose middleware is
// nearest to the handler. Manager.From returns the session of a given Manager.
func From(ctx context.Context) *Session {
	if c := sessionsIn(ctx); c != nil {
		return newSession(c.s, ctx)
	}
	return noSession(ctx)
}

// From returns the session of m. It is for programs with several Managers; see the function From.
func (m *Manager) From(ctx context.Context) *Session {
	if s := m.find(ctx); s != nil {
		return newSession(s, ctx)
	}
	return noSession(ctx)
}

// noSession returns a Session whose methods all return ErrNoSession.
func noSession(ctx context.Context) *Session {
	s := &state{m: noManager}
	s.Fail(ErrNoSession)
	return newSession(s, ctx)
}

// noManager is the Manager of the Sessions that noSession returns.
var noManager = &Manager{rules: ownRules{}, cfg: config{codec: jsoncodec.Codec{}, logger: slog.New(slog.DiscardHandler)}}
