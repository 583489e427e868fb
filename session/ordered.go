package session

import "iter"

// ordered maps keys to values and keeps the order in which the keys were set
// first. Each call takes constant time on average, however many keys there are:
// visitors may choose keys, and so the work that a session costs. The zero value
// is empty.
type ordered[V any] struct {
	entries []orderedEntry[V] // those that were deleted are not live
	at      map[string]int    // where the live ones are
}

type orderedEntry[V any] struct {
	key   string
	value V
	live  bool
}

func (o *ordered[V]) len() int { return len(o.at) }

func (o *ordered[V]) has(key string) bool {
	_, ok := o.at[key]
	return ok
}

func (o *ordered[V]) get(key string) (v V, ok bool) {
	i, ok := o.at[key]
	if ok {
		v = o.entries[i].value
	}
	return v, ok
}

// set changes key in its place, or adds it at the end.
func (o *ordered[V]) set(key string, v V) {
	if i, ok := o.at[key]; ok {
		o.entries[i].value = v
		return
	}
	if o.at == nil {
		o.at = make(map[string]int)
	}
	o.at[key] = len(o.entries)
	o.entries = append(o.entries, orderedEntry[V]{key, v, true})
}

func (o *ordered[V]) delete(key string) {
	i, ok := o.at[key]
	if !ok {
		return
	}
	delete(o.at, key)
	o.entries[i] = orderedEntry[V]{}
	const few = 32
	if len(o.entries) > few && len(o.entries) > 2*len(o.at) {
		o.compact()
	}
}

// compact drops entries that are not live. At least as many were deleted since
// the last time as it moves now.
func (o *ordered[V]) compact() {
	live := make([]orderedEntry[V], 0, len(o.at))
	for _, e := range o.entries {
		if e.live {
			o.at[e.key] = len(live)
			live = append(live, e)
		}
	}
	o.entries = live
}

// all yields the keys and values in order. The map must not change meanwhile.
func (o *ordered[V]) all() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range o.entries {
			if e.live && !yield(e.key, e.value) {
				return
			}
		}
	}
}
