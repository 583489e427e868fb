package session

import (
	"context"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Interfere puts a value into the store, as another request would, in any state of the session.
func Interfere(s *Session, key string, v any) error {
	of, _ := s.open()
	raw, err := of.m.cfg.codec.Marshal(v)
	if err == nil {
		_, err = of.m.store.Commit(context.Background(), of.Key(), sessionstore.Change{TTL: of.m.cfg.idle, Ops: []sessionstore.Op{{Kind: sessionstore.OpPut, Key: key, Value: raw}}})
	}
	return err
}

// MaxWaiters is how many requests wait for the lock of one session.
const MaxWaiters = maxWaiters

// StoreOf returns the store in which m keeps its sessions.
func StoreOf(m *Manager) sessionstore.Store { return m.store }

// StandingOf names the standing of s, its stage and its trouble.
func StandingOf(h *Session) string {
	s, _ := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.Standing().String() + [...]string{"", " saved", " begun"}[s.stage]
	switch {
	case s.Abandoned():
		name += " abandoned"
	case s.Failed() != nil:
		name += " failed"
	case s.Refused() != nil:
		name += " refused"
	}
	return name
}

// KeyOf returns the key at which m keeps the session with this id.
func KeyOf(m *Manager, id string) string { return m.rules.Key(id) }
