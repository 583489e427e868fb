package session

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// SetUser says whose session this is, so that Manager.UserSessions and Manager.EndUserSessions find
// it. Call it at the login. user is any text in UTF-8 that names one user, for example the number
// of an account; "" takes the name back. The change is saved with the other writes of the request.
// If the store cannot find the sessions of a user, the error is errors.ErrUnsupported.
func (h *Session) SetUser(user string) error {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginUse(ctx, true, ""); err != nil {
		return err
	}
	if user == "" {
		return s.plan(ctx, sessionstore.Op{Kind: sessionstore.OpDelete, Key: userKey})
	}
	if !utf8.ValidString(user) { // JSON would replace some bytes, and nobody would find the session
		return s.refuse(fmt.Errorf("session: SetUser: %.40q is not UTF-8", user))
	}
	if _, err := s.m.index(); err != nil {
		return s.refuse(err)
	}
	return s.putOwn(ctx, userKey, user)
}

// User returns the name that SetUser gave to the session, or "".
func (h *Session) User() (string, error) { return Get[string](h, userKey) }

// UserSessions returns the sessions of a user, for example for a page that lists his devices. They
// are loaded. Each can be read, changed and saved with Commit, and ended with Destroy; changes that
// were not committed are lost. Session.Same says which of them belongs to a request.
func (m *Manager) UserSessions(ctx context.Context, user string) ([]*Session, error) {
	x, err := m.index()
	if err != nil {
		return nil, err
	}
	keys, err := x.Noted(ctx, m.indexed(user))
	if err != nil {
		return nil, wrapLoad(err)
	}
	var sessions []*Session
	var gone []string
	for _, key := range keys {
		rec, err := m.store.Load(ctx, key)
		switch {
		case errors.Is(err, sessionstore.ErrNotFound):
			gone = append(gone, key)
		case errors.Is(err, ErrRefused) || err == nil && (rec.Moved.To.Text() != "" || m.tooOld(rec) || m.userIn(rec) != user):
		case err != nil:
			return nil, wrapLoad(err)
		default:
			s := m.detached(ctx)
			s.Seek("", key)
			s.Found()
			s.keepRecord(rec)
			sessions = append(sessions, newSession(s, ctx))
		}
	}
	m.forget(ctx, x, user, gone)
	return sessions, nil
}

// EndUserSessions ends all sessions of a user, except those in keep, and returns how many it has
// ended: "log out everywhere". Requests under way can no longer save, and no id from before a
// Regenerate works any more, not even one of a session in keep. If a session cannot be ended,
// EndUserSessions ends the others and returns the error. The session of a login that is under way
// may live on: it is ended if the login saves it before EndUserSessions looks. A call that begins
// after the login was answered ends it.
//
// After a change of the password, keep the session of the request and give it a new id, too:
//
//	err := session.From(ctx).Regenerate(ctx, session.GracePeriod(0))
//	_, err = sessions.EndUserSessions(ctx, user, session.From(ctx))
func (m *Manager) EndUserSessions(ctx context.Context, user string, keep ...*Session) (int, error) {
	x, err := m.index()
	if err != nil {
		return 0, err
	}
	kept := make(map[string]bool)
	for _, s := range keep {
		key, err := s.loadedKey()
		if err != nil {
			return 0, err
		}
		kept[key] = true
	}
	keys, err := x.Noted(ctx, m.indexed(user))
	if err != nil {
		return 0, wrapLoad(err)
	}
	all := 0
	var failed error
	var gone []string
	for _, key := range keys {
		n, err := m.endAt(ctx, user, key, kept)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case !kept[key]:
			gone = append(gone, key)
		}
		all += n
	}
	m.forget(ctx, x, user, gone)
	return all, failed
}

// endAt ends the session of user at key. If there is a tombstone, endAt removes it, and ends the
// session at its new key.
func (m *Manager) endAt(ctx context.Context, user, key string, kept map[string]bool) (n int, err error) {
	for key != "" && !kept[key] {
		rec, err := m.store.Load(ctx, key)
		switch {
		case errors.Is(err, sessionstore.ErrNotFound):
			return n, nil
		case err != nil && !errors.Is(err, ErrRefused): // a session that cannot be read is ended
			return n, wrapLoad(err)
		case err == nil && m.userIn(rec) != user:
			return n, nil
		}
		s := m.detached(ctx)
		next, err := s.deleteAt(ctx, key)
		if err != nil {
			return n, wrapStore(err)
		}
		if next == "" {
			n++
			s.event(ctx, Event{Kind: EventDestroyed})
		}
		key = next
	}
	return n, nil
}

// loadedKey loads the session and returns its key in the store.
func (h *Session) loadedKey() (string, error) {
	s, ctx := h.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.beginUse(ctx, false, "")
	return s.Key(), err
}

// Same reports whether both are the same session of the store. It is false if one of them cannot be
// loaded, or if there is no session yet.
func (h *Session) Same(other *Session) bool {
	a, err := h.loadedKey()
	if err != nil || a == "" {
		return false
	}
	b, err := other.loadedKey()
	return err == nil && a == b
}
