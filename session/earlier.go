package session

// earlierReads is for a session that is loaded again, under the lock. It holds the values that the
// request read before this load. If the request then writes a key that it read before, the key must
// still have the old value: the handler may have computed the new value from the old one. If the
// request reads a key again after the load, the value that it read before no longer counts.
type earlierReads struct {
	seenBefore map[string]Condition
	sawAllKeys bool            // Keys was called: the request knows that only the keys in seenBefore existed
	again      map[string]bool // keys that were read again, so that sawAllKeys no longer applies to them
}

// add records the values that v has read since its last load. It is called before the session is
// loaded again.
func (e *earlierReads) add(v *view) {
	if e.seenBefore == nil {
		e.seenBefore, e.again = make(map[string]Condition), make(map[string]bool)
	}
	note := func(key string) {
		if _, ok := e.conditionOn(key); !ok {
			value, there := v.values.get(key)
			e.seenBefore[key] = Condition{Key: key, Absent: !there, Value: value}
		}
	}
	for key := range v.read {
		note(key)
	}
	for key := range v.watched {
		note(key)
	}
	if v.readAll {
		for key := range v.values.pairs() {
			note(key)
		}
		e.sawAllKeys, e.again = true, make(map[string]bool)
	}
}

// e.conditionOn returns the condition on key. ok is false if there is none.
func (e *earlierReads) conditionOn(key string) (Condition, bool) {
	if c, ok := e.seenBefore[key]; ok {
		return c, true
	}
	return Condition{Key: key, Absent: true}, e.sawAllKeys && !e.again[key]
}

// forget drops a key that was read again, or that this request wrote.
func (e *earlierReads) forget(key string) {
	delete(e.seenBefore, key)
	if e.sawAllKeys {
		e.again[key] = true
	}
}

// forgetAll drops all keys except keepKeys.
func (e *earlierReads) forgetAll(keepKeys ordered[Op]) {
	was := make(map[string]Condition)
	for key := range keepKeys.pairs() {
		if c, ok := e.conditionOn(key); ok {
			was[key] = c
		}
	}
	e.seenBefore, e.sawAllKeys = was, false
}
