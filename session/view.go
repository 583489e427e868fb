package session

// view is what a request sees of its session: the values that were loaded, with
// what the request wrote on top. It also knows what the request has read, since
// that is what a commit may depend on. It never asks the store.
type view struct {
	values  ordered[[]byte] // as loaded, and as this request saved them since
	pending ordered[Op]     // Puts and Deletes that wait for the commit, at most one for a key
	read    map[string]bool // keys that were read since the load
	readAll bool            // every key was read, by Keys
	earlier earlier         // what was read before the load was repeated
	watched map[string]bool // by Watch
	handed  []handedOut     // for Development
	size    int             // of keys and values, as the request sees them
}

// handedOut is a value that Development watches.
type handedOut struct {
	key   string
	value any
	was   string
}

// at returns what the request sees at key.
func (v *view) at(key string) ([]byte, bool) {
	if op, ok := v.pending.get(key); ok {
		return op.Value, op.Kind == OpPut
	}
	return v.values.get(key)
}

// see is at, and notes that the key was read, unless this request wrote it
// itself.
func (v *view) see(key string) ([]byte, bool) {
	if !v.pending.has(key) {
		if v.read == nil {
			v.read = make(map[string]bool)
		}
		v.read[key] = true
		v.earlier.forget(key)
	}
	return v.at(key)
}

// seeAll notes that every key was read and returns the keys.
func (v *view) seeAll() []string {
	v.readAll = true
	v.earlier.forgetAll(v.pending)
	var keys []string
	for k := range v.values.all() {
		if _, ok := v.at(k); ok {
			keys = append(keys, k)
		}
	}
	for k, op := range v.pending.all() {
		if !v.values.has(k) && op.Kind == OpPut {
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

// replace takes over what was loaded from the store.
func (v *view) replace(fields []Field) {
	v.values, v.size = ordered[[]byte]{}, 0
	for key := range v.pending.all() { // after a change of the mode there may be some
		v.size += v.sizeOf(key)
	}
	for _, f := range fields {
		v.store(f.Key, f.Value)
	}
}

// reload keeps what was read for the commit, because the values are about to be
// loaded again.
func (v *view) reload() {
	v.earlier.add(v)
	v.read, v.readAll = nil, false
}

// store notes the value that key has in the store now.
func (v *view) store(key string, value []byte) {
	was := v.sizeOf(key)
	v.values.set(key, value)
	v.size += v.sizeOf(key) - was
}

// unstore notes that key is not in the store now.
func (v *view) unstore(key string) {
	was := v.sizeOf(key)
	v.values.delete(key)
	v.size += v.sizeOf(key) - was
}

// plan notes an op that waits for the commit.
func (v *view) plan(op Op) {
	was := v.sizeOf(op.Key)
	v.pending.set(op.Key, op)
	v.size += v.sizeOf(op.Key) - was
}

// committed notes that op was committed; value is what the store returned for it.
func (v *view) committed(op Op, value []byte) {
	v.pending.delete(op.Key)
	v.earlier.forget(op.Key)
	switch op.Kind {
	case OpPut:
		v.store(op.Key, op.Value)
	case OpIncr:
		v.store(op.Key, value)
	default:
		v.unstore(op.Key)
	}
}

// sizeOf is what a key counts, as the request sees it.
func (v *view) sizeOf(key string) int {
	if value, ok := v.at(key); ok {
		return len(key) + len(value)
	}
	return 0
}

// clear forgets all values and what waits for the commit.
func (v *view) clear() {
	v.pending, v.values, v.size = ordered[Op]{}, ordered[[]byte]{}, 0
}

// ops lists what waits for the commit, in order, and whether a Put is among it.
func (v *view) ops() (ops []Op, puts bool) {
	ops = make([]Op, 0, v.pending.len())
	for _, op := range v.pending.all() {
		ops = append(ops, op)
		puts = puts || op.Kind == OpPut
	}
	return ops, puts
}

// was is the condition that key has the value that was loaded.
func (v *view) was(key string) Condition {
	value, ok := v.values.get(key)
	return Condition{Key: key, Absent: !ok, Value: value}
}
