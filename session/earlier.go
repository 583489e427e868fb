package session

// earlier is what a request had read before its session was loaded again, under
// the lock. A key of it that the request then writes must still be what it was:
// the handler may have computed the new value from the old one. A key that is
// read again counts no more.
type earlier struct {
	was    map[string]Condition
	absent bool            // all other keys were seen to be absent, by Keys
	again  map[string]bool // of those: read again
}

// add notes what s has read since its last load, which is about to be repeated.
func (e *earlier) add(s *Session) {
	if e.was == nil {
		e.was, e.again = make(map[string]Condition), make(map[string]bool)
	}
	note := func(key string) {
		if _, ok := e.at(key); !ok {
			v, there := s.values.get(key)
			e.was[key] = Condition{Key: key, Absent: !there, Value: v}
		}
	}
	for key := range s.read {
		note(key)
	}
	for key := range s.watched {
		note(key)
	}
	if s.readAll {
		for key := range s.values.all() {
			note(key)
		}
		e.absent, e.again = true, make(map[string]bool)
	}
}

// at returns what key was, if that counts.
func (e *earlier) at(key string) (Condition, bool) {
	if c, ok := e.was[key]; ok {
		return c, true
	}
	return Condition{Key: key, Absent: true}, e.absent && !e.again[key]
}

// forget drops a key that was read again, or written by this request.
func (e *earlier) forget(key string) {
	delete(e.was, key)
	if e.absent {
		e.again[key] = true
	}
}

// forgetAll drops all keys but those for which keep is true.
func (e *earlier) forgetAll(keep ordered[Op]) {
	was := make(map[string]Condition)
	for key := range keep.all() {
		if c, ok := e.at(key); ok {
			was[key] = c
		}
	}
	e.was, e.absent = was, false
}
