package session

import (
	"github.com/padlock-go/padlock/web/internal/ordered"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// earlierReads remembers the values that a request read before its session was loaded again, under
// the lock. The handler may have computed a new value from such an old value. So if the request
// writes the key, the commit fails unless the key still has the old value. Once the request has
// read the key again, the old value no longer matters.
type earlierReads struct {
	seenBefore map[string]sessionstore.Condition
	// sawAllKeys says that the request called Keys. So it knows that no keys existed except those
	// in seenBefore.
	sawAllKeys bool
	// readAgain has the keys that the request has read or written since the second load.
	// sawAllKeys no longer holds for these keys.
	readAgain map[string]bool
}

// add is called before the session is loaded again. It records what the request has read since the
// last load.
func (e *earlierReads) add(v *view) {
	if e.seenBefore == nil {
		e.seenBefore, e.readAgain = make(map[string]sessionstore.Condition), make(map[string]bool)
	}
	note := func(key string) {
		if _, ok := e.conditionOn(key); !ok {
			value, there := v.values.Get(key)
			e.seenBefore[key] = sessionstore.Condition{Key: key, Absent: !there, Value: value}
		}
	}
	for key := range v.read {
		note(key)
	}
	for key := range v.watched {
		note(key)
	}
	if v.readAll {
		for key := range v.values.All() {
			note(key)
		}
		e.sawAllKeys, e.readAgain = true, make(map[string]bool)
	}
}

// e.conditionOn returns the condition on key. ok is false if there is none.
func (e *earlierReads) conditionOn(key string) (sessionstore.Condition, bool) {
	if c, ok := e.seenBefore[key]; ok {
		return c, true
	}
	return sessionstore.Condition{Key: key, Absent: true}, e.sawAllKeys && !e.readAgain[key]
}

// forget drops the old value of a key, because the request has read the key again or has written
// it.
func (e *earlierReads) forget(key string) {
	delete(e.seenBefore, key)
	if e.sawAllKeys {
		e.readAgain[key] = true
	}
}

// forgetAll drops the old values of all keys except keepKeys.
func (e *earlierReads) forgetAll(keepKeys ordered.Map[sessionstore.Op]) {
	was := make(map[string]sessionstore.Condition)
	for key := range keepKeys.All() {
		if c, ok := e.conditionOn(key); ok {
			was[key] = c
		}
	}
	e.seenBefore, e.sawAllKeys = was, false
}
