package session

import "iter"

// ordered maps keys to values and keeps the order in which the keys were first set. Each call takes
// constant time on average, even with many keys. That matters because visitors may choose the keys,
// and could otherwise make a session expensive. The zero value is empty.
type ordered[V any] struct {
	entries []orderedEntry[V] // deleted entries stay here with live == false
	at      map[string]int    // index of each key's entry
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

// setKey changes the value of key, or adds the key at the end.
func (o *ordered[V]) setKey(key string, v V) {
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

// compact drops deleted entries. It runs only when there are more deleted entries than live ones.
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

// pairs yields the keys and values in order. The map must not be changed meanwhile.
func (o *ordered[V]) pairs() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range o.entries {
			if e.live && !yield(e.key, e.value) {
				return
			}
		}
	}
}
