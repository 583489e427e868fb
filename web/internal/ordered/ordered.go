// Package ordered has a map that keeps the order of its keys.
package ordered

import "iter"

// A Map maps keys to values and keeps the order in which the keys were first set. Each call takes
// constant time on average, even with many keys. That matters because visitors may choose the keys,
// and could otherwise make a session expensive. The zero value is empty.
type Map[V any] struct {
	entries []entry[V]     // deleted entries stay here with live == false
	at      map[string]int // index of each key's entry
}

type entry[V any] struct {
	key   string
	value V
	live  bool
}

// Len counts the keys.
func (o *Map[V]) Len() int { return len(o.at) }

// Has reports whether key is there.
func (o *Map[V]) Has(key string) bool {
	_, ok := o.at[key]
	return ok
}

// Get returns the value of key.
func (o *Map[V]) Get(key string) (v V, ok bool) {
	i, ok := o.at[key]
	if ok {
		v = o.entries[i].value
	}
	return v, ok
}

// Set changes the value of key, or adds the key at the end.
func (o *Map[V]) Set(key string, v V) {
	if i, ok := o.at[key]; ok {
		o.entries[i].value = v
		return
	}
	if o.at == nil {
		o.at = make(map[string]int)
	}
	o.at[key] = len(o.entries)
	o.entries = append(o.entries, entry[V]{key, v, true})
}

// Delete removes key, if it is there.
func (o *Map[V]) Delete(key string) {
	i, ok := o.at[key]
	if !ok {
		return
	}
	delete(o.at, key)
	o.entries[i] = entry[V]{}
	const few = 32
	if len(o.entries) > few && len(o.entries) > 2*len(o.at) {
		o.compact()
	}
}

// compact drops deleted entries. It runs only when there are more deleted entries than live ones.
func (o *Map[V]) compact() {
	live := make([]entry[V], 0, len(o.at))
	for _, e := range o.entries {
		if e.live {
			o.at[e.key] = len(live)
			live = append(live, e)
		}
	}
	o.entries = live
}

// All yields the keys and values in order. The map must not be changed meanwhile.
func (o *Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range o.entries {
			if e.live && !yield(e.key, e.value) {
				return
			}
		}
	}
}
