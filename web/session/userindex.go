package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

func (m *Manager) index() (sessionstore.Index, error) {
	x, ok := m.store.(sessionstore.Index)
	if !ok {
		return nil, fmt.Errorf("session: the store cannot find the sessions of a user: %w", errors.ErrUnsupported)
	}
	return x, nil
}

// indexed returns the name of user in the index. Applications with different keys have different
// names for a user, even if they share one Index.
func (m *Manager) indexed(user string) string {
	sum := sha256.Sum256([]byte(m.rules.Key("") + "\x00" + user))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// userIn returns the user of a stored session.
func (m *Manager) userIn(rec sessionstore.Record) (user string) {
	for _, f := range rec.Fields {
		if f.Key == userKey {
			_ = m.cfg.codec.Unmarshal(f.Value, &user) // a value that cannot be decoded names nobody
		}
	}
	return user
}

// noteUser notes the session at key for its user before ops are committed, if these ops make that
// necessary. A session without a deadline, or one that PHP shares, is noted each time when its idle
// time begins again.
func (s *state) noteUser(ctx context.Context, key string, ops []sessionstore.Op) error {
	raw, ok := s.valueOf(userKey)
	if !ok {
		return nil
	}
	changes := func(op sessionstore.Op) bool { return op.Key == userKey || op.Key == endKey }
	if !s.life.deadline.IsZero() && !s.m.traits.CommitsNeedLock && !slices.ContainsFunc(ops, changes) {
		return nil
	}
	var user string
	if err := s.m.cfg.codec.Unmarshal(raw, &user); err != nil {
		return nil
	}
	return s.m.note(ctx, user, key, s.life)
}

// note notes the session at key for user. The session has not been written yet. So after an error,
// nothing has changed.
func (m *Manager) note(ctx context.Context, user, key string, l life) error {
	if user == "" {
		return nil
	}
	x, err := m.index()
	if err != nil {
		return nil // SetUser has refused the name, or another program has written it
	}
	ttl := m.ttl(l)
	if !l.deadline.IsZero() {
		ttl = max(time.Until(l.deadline), time.Millisecond)
	}
	if err := x.Note(ctx, m.indexed(user), key, ttl); err != nil {
		return joinErrors(ErrUnavailable, err)
	}
	return nil
}

// forget removes keys of sessions that have ended from the index. If that fails, the next call does
// it.
func (m *Manager) forget(ctx context.Context, x sessionstore.Index, user string, keys []string) {
	if keys == nil {
		return
	}
	if err := x.Forget(ctx, m.indexed(user), keys); err != nil {
		m.cfg.logger.WarnContext(ctx, "session: ended sessions stay in the index", "error", err)
	}
}
