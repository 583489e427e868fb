package session

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// The keys that begin with ownPrefix belong to this package. They are values of the session, so
// each store keeps them, and a new id takes them along. Handlers cannot write them and do not see
// them among the keys.
const (
	ownPrefix   = "padlock:"
	endKey      = ownPrefix + "end"      // SetDeadline: when the session ends, in ms since 1970
	rememberKey = ownPrefix + "remember" // Remember: 1
	userKey     = ownPrefix + "user"     // SetUser: the name of the user
)

func isOwn(key string) bool { return strings.HasPrefix(key, ownPrefix) }

// life says how long a session lives.
type life struct {
	deadline   time.Time // zero: the session has no absolute end
	remembered bool      // the session lives until its deadline, even if it is not used
}

// lifeOf returns what the stored session says about its life.
func (m *Manager) lifeOf(rec sessionstore.Record) life {
	l := life{deadline: rec.Deadline}
	for _, f := range rec.Fields {
		var ms int64
		switch {
		case f.Key == rememberKey:
			l.remembered = true
		case f.Key == endKey && m.cfg.codec.Unmarshal(f.Value, &ms) == nil:
			l.deadline = time.UnixMilli(ms)
		}
	}
	return l
}

// ttl returns how long a session lives from now.
func (m *Manager) ttl(l life) time.Duration {
	ttl := m.cfg.idle
	if !l.deadline.IsZero() {
		left := max(time.Until(l.deadline), 1)
		if ttl == 0 || left < ttl || l.remembered {
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
func (m *Manager) tooOld(rec sessionstore.Record) bool {
	deadline := m.lifeOf(rec).deadline
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// alive returns the key of the session that lives at key, or "". If the session at key has moved,
// that is its new key.
func (m *Manager) alive(ctx context.Context, key string) (string, error) {
	for range maxHops {
		rec, err := m.store.Load(ctx, key)
		if errors.Is(err, sessionstore.ErrNotFound) || err == nil && rec.Moved.To.Text() == "" && m.tooOld(rec) {
			return "", nil
		}
		if err != nil || rec.Moved.To.Text() == "" {
			return key, err
		}
		key = rec.Moved.To.Text()
	}
	return "", errLongChain
}
