package session

import (
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// conditionsFor returns the conditions for commit c. The argument allRead says that the commit
// depends on everything that was read. The argument idChanged says that another request has given
// the session a new id since this request loaded it.
func (v *view) conditionsFor(c *sessionstore.Change, allRead, idChanged bool) []sessionstore.Condition {
	keys := make(map[string]bool)
	if allRead {
		v.addRead(keys)
	} else {
		for k := range v.watched {
			keys[k] = true
		}
	}
	for _, op := range c.Ops {
		if v.read[op.Key] || v.readAll || idChanged && op.Kind == sessionstore.OpTake {
			keys[op.Key] = true
		}
	}
	conditions := v.unchangedEarlier(c, keys)
	for k := range keys {
		conditions = append(conditions, v.asLoaded(k))
	}
	return conditions
}

// addRead adds all keys that were read.
func (v *view) addRead(keys map[string]bool) {
	for k := range v.read {
		keys[k] = true
	}
	if v.readAll {
		for k := range v.values.All() {
			keys[k] = true
		}
	}
}

// unchangedEarlier returns conditions for the case that the session was loaded twice. A key may
// have been read before the second load and not again. If the commit writes or watches such a key,
// the key must still have the value that was read. unchangedEarlier deletes the key from the map
// keys, so that the caller adds no other condition for it.
func (v *view) unchangedEarlier(c *sessionstore.Change, keys map[string]bool) (conditions []sessionstore.Condition) {
	add := func(key string) {
		if was, ok := v.earlier.conditionOn(key); ok {
			conditions = append(conditions, was)
			delete(keys, key)
		}
	}
	for _, op := range c.Ops {
		add(op.Key)
	}
	for k := range v.watched {
		add(k)
	}
	return conditions
}
