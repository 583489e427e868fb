package stampede

import "container/list"

// lru is a map of bounded size. If it is full, it forgets the key that has not been used for the
// longest time. All its methods take constant time. Its user must guard it with a mutex.
type lru[V any] struct {
	max     int
	entries map[string]*list.Element // the elements' values are *lruItem[V]
	recent  *list.List               // the most recently used item is in front
}

type lruItem[V any] struct {
	key   string
	value V
}

func newLRU[V any](max int) *lru[V] {
	return &lru[V]{max: max, entries: make(map[string]*list.Element), recent: list.New()}
}

// getEntry returns a pointer to the value of key, or nil. The caller may change the value.
func (l *lru[V]) getEntry(key string) *V {
	el := l.entries[key]
	if el == nil {
		return nil
	}
	l.recent.MoveToFront(el)
	return &el.Value.(*lruItem[V]).value
}

// putEntry sets the value of key. If the map was full, putEntry forgets another key and returns the
// value of that key.
func (l *lru[V]) putEntry(key string, v V) (forgotten *V) {
	if old := l.getEntry(key); old != nil {
		*old = v
		return nil
	}
	l.entries[key] = l.recent.PushFront(&lruItem[V]{key, v})
	if l.recent.Len() <= l.max {
		return nil
	}
	gone := l.recent.Remove(l.recent.Back()).(*lruItem[V])
	delete(l.entries, gone.key)
	return &gone.value
}

// oldest returns the key that has not been used for the longest time. The map must not be empty.
func (l *lru[V]) oldest() string { return l.recent.Back().Value.(*lruItem[V]).key }

func (l *lru[V]) remove(key string) {
	if el := l.entries[key]; el != nil {
		l.recent.Remove(el)
		delete(l.entries, key)
	}
}
