package session

import (
	"github.com/padlock-go/padlock/web/internal/ordered"
	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// view is what a request sees of its session: the values that were loaded, changed by the writes of
// the request. It also records what the request has read, because a commit may depend on that. It
// never calls the store.
type view struct {
	values  ordered.Map[[]byte]          // as loaded, updated by the commits of this request
	pending ordered.Map[sessionstore.Op] // Puts and Deletes that wait for the commit, at most one for a key
	read    map[string]bool              // keys that were read since the load
	readAll bool                         // Keys was called
	earlier earlierReads                 // values read before the session was loaded again
	watched map[string]bool              // the keys given to Watch
	handed  []handedOut                  // with the option Development: values that the handler got and may change in place
	size    int                          // bytes of all keys and values, as the request sees them
	try     func(sessionstore.Op) error  // Record.Try of the loaded session; may be nil
}

// handedOut is a value that the handler got. With the option Development, the request checks
// whether the handler has changed the value in place.
type handedOut struct {
	key   string
	value any
	was   string
}

// valueOf returns the value of key as the request sees it.
func (v *view) valueOf(key string) ([]byte, bool) {
	if op, ok := v.pending.Get(key); ok {
		return op.Value, op.Kind == sessionstore.OpPut
	}
	return v.values.Get(key)
}

// readValue returns the value that key has for the request, and marks the key as read. If this
// request has written the key, readValue does not mark it.
func (v *view) readValue(key string) ([]byte, bool) {
	if !v.pending.Has(key) {
		if v.read == nil {
			v.read = make(map[string]bool)
		}
		v.read[key] = true
		v.earlier.forget(key)
	}
	return v.valueOf(key)
}

// readAllKeys marks every key as read and returns the keys.
func (v *view) readAllKeys() []string {
	v.readAll = true
	v.earlier.forgetAll(v.pending)
	return v.keys()
}

// keys returns the keys that have a value for the request, without those of this package. It does
// not mark them as read.
func (v *view) keys() []string {
	var keys []string
	for k := range v.values.All() {
		if _, ok := v.valueOf(k); ok && !isOwn(k) {
			keys = append(keys, k)
		}
	}
	for k, op := range v.pending.All() {
		if !v.values.Has(k) && op.Kind == sessionstore.OpPut && !isOwn(k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// watch makes the commit depend on keys.
func (v *view) watch(keys []string) {
	if v.watched == nil {
		v.watched = make(map[string]bool)
	}
	for _, k := range keys {
		v.watched[k] = true
	}
}

// replace replaces the values of the view by the loaded fields.
func (v *view) replace(fields []sessionstore.Field) {
	v.values, v.size = ordered.Map[[]byte]{}, 0
	for key := range v.pending.All() { // if the mode was changed, some writes may be pending
		v.size += v.sizeOf(key)
	}
	for _, f := range fields {
		v.noteStored(f.Key, f.Value)
	}
}

// reload prepares the view for a second load of the session. It first copies what the request has
// read to v.earlier, because the commit may depend on these values.
func (v *view) reload() {
	v.earlier.add(v)
	v.read, v.readAll = nil, false
}

// noteStored updates the view: the store now has this value at key.
func (v *view) noteStored(key string, value []byte) {
	was := v.sizeOf(key)
	v.values.Set(key, value)
	v.size += v.sizeOf(key) - was
}

// noteRemoved updates the view: the store no longer has a value at key.
func (v *view) noteRemoved(key string) {
	was := v.sizeOf(key)
	v.values.Delete(key)
	v.size += v.sizeOf(key) - was
}

// planOp adds op to the ops that wait for the commit.
func (v *view) planOp(op sessionstore.Op) {
	was := v.sizeOf(op.Key)
	v.pending.Set(op.Key, op)
	v.size += v.sizeOf(op.Key) - was
}

// noteCommitted updates the view after op was committed. value is the value that the store returned
// for op.
func (v *view) noteCommitted(op sessionstore.Op, value []byte) {
	v.pending.Delete(op.Key)
	v.earlier.forget(op.Key)
	switch op.Kind {
	case sessionstore.OpPut:
		v.noteStored(op.Key, op.Value)
	case sessionstore.OpIncr:
		v.noteStored(op.Key, value)
	default:
		v.noteRemoved(op.Key)
	}
}

// sizeOf returns the size of a key and its value, as the request sees it.
func (v *view) sizeOf(key string) int {
	if value, ok := v.valueOf(key); ok {
		return len(key) + len(value)
	}
	return 0
}

// clearView forgets all values and all pending ops.
func (v *view) clearView() {
	v.pending, v.values, v.size, v.try = ordered.Map[sessionstore.Op]{}, ordered.Map[[]byte]{}, 0, nil
}

// ops lists the ops that wait for the commit, in order. hasPut reports whether one of them is a
// Put.
func (v *view) ops() (ops []sessionstore.Op, hasPut bool) {
	ops = make([]sessionstore.Op, 0, v.pending.Len())
	for _, op := range v.pending.All() {
		ops = append(ops, op)
		hasPut = hasPut || op.Kind == sessionstore.OpPut
	}
	return ops, hasPut
}

// asLoaded returns a condition for the commit: the value of key must still be the one that was
// loaded.
func (v *view) asLoaded(key string) sessionstore.Condition {
	value, ok := v.values.Get(key)
	return sessionstore.Condition{Key: key, Absent: !ok, Value: value}
}
