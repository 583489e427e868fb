package session

import "fmt"

func (m *Manager) checkKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("%w: it has %d bytes, 1 to %d are allowed", ErrKey, len(key), MaxKey)
	}
	if isOwn(key) {
		return fmt.Errorf("%w: %q: keys that begin with %q belong to package session", ErrKey, key, ownPrefix)
	}
	return m.rules.CheckKey(key)
}
