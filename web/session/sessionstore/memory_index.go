package sessionstore

import (
	"context"
	"sync"
	"time"
)

// memoryIndex has the keys of all users. If the number of users has doubled since the last sweep,
// the next Note removes keys that have expired.
type memoryIndex struct {
	mu      sync.Mutex
	users   map[string]notedKeys
	sweepAt int
}

// Note implements Index.
func (m *Memory) Note(ctx context.Context, user, key string, ttl time.Duration) error {
	return m.users.change(ctx, user, func(n notedKeys, now time.Time) notedKeys { return n.with(key, ttl, now) })
}

// Noted implements Index.
func (m *Memory) Noted(ctx context.Context, user string) (keys []string, err error) {
	err = m.users.change(ctx, user, func(n notedKeys, _ time.Time) notedKeys { keys = n.names(); return n })
	return keys, err
}

// Forget implements Index.
func (m *Memory) Forget(ctx context.Context, user string, keys []string) error {
	return m.users.change(ctx, user, func(n notedKeys, now time.Time) notedKeys { return n.without(keys, now) })
}

func (x *memoryIndex) change(ctx context.Context, user string, f func(notedKeys, time.Time) notedKeys) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.users == nil {
		x.users = make(map[string]notedKeys)
	}
	x.set(user, f(x.users[user], now))
	if len(x.users) >= max(sweepFrom, x.sweepAt) {
		for user, keys := range x.users {
			x.set(user, keys.without(nil, now))
		}
		x.sweepAt = 2 * len(x.users)
	}
	return nil
}

func (x *memoryIndex) set(user string, keys notedKeys) {
	if len(keys) == 0 {
		delete(x.users, user)
		return
	}
	x.users[user] = keys
}
