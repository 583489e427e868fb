package session

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/session/sessionstore"
)

// ttl returns how long a session lives from now.
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

// newDeadline returns the end of the absolute lifetime of a session that is made now.
func (m *Manager) newDeadline() time.Time {
	if m.cfg.lifetime == 0 {
		return time.Time{}
	}
	return time.Now().Add(m.cfg.lifetime).Truncate(time.Millisecond)
}

// tooOld reports whether the absolute lifetime is over, by the clock of this process.
func tooOld(rec sessionstore.Record) bool {
	return !rec.Deadline.IsZero() && !time.Now().Before(rec.Deadline)
}

// alive reports whether a session lives at key. If the session at key has moved, alive looks at its
// new key.
func (m *Manager) alive(ctx context.Context, key string) (bool, error) {
	for range maxHops {
		rec, err := m.store.Load(ctx, key)
		if errors.Is(err, sessionstore.ErrNotFound) {
			return false, nil
		}
		if err != nil || rec.Moved.To == "" {
			return err == nil && !tooOld(rec), err
		}
		key = rec.Moved.To
	}
	return false, errLongChain
}
