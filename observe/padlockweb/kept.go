package padlockweb

import (
	"maps"
	"sync"
	"time"
)

const (
	keepRead    = 10 * time.Second
	keepPartial = time.Second // if something could not be read, the value lacks it
	maxKeys     = 100
)

// kept keeps values that are expensive to read: many streams and requests ask for the same one. A
// key has everything that the value depends on, above all the prefix of the visitor.
type kept[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]*keptValue[V]
}

type keptValue[V any] struct {
	mu    sync.Mutex // held while the value is read, so that only one request reads it
	until time.Time
	value V
	err   error
}

// isOld reports whether the value is old and nobody reads it again.
func (v *keptValue[V]) isOld() bool {
	if !v.mu.TryLock() {
		return false
	}
	defer v.mu.Unlock()
	return timeNow().After(v.until)
}

// get returns the value of the key. It calls read if there is no value, or if the value is old.
func (k *kept[K, V]) get(key K, read func() (V, error)) (V, error) {
	v := k.of(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	if timeNow().After(v.until) {
		v.value, v.err = read()
		keep := keepRead
		if v.err != nil {
			keep = keepPartial
		}
		v.until = timeNow().Add(keep)
	}
	return v.value, v.err
}

// of returns the place for the value of the key, after it has dropped all old values.
func (k *kept[K, V]) of(key K) *keptValue[V] {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.all, func(other K, v *keptValue[V]) bool { return other != key && v.isOld() })
	if k.all == nil || len(k.all) >= maxKeys && k.all[key] == nil {
		k.all = make(map[K]*keptValue[V])
	}
	v := k.all[key]
	if v == nil {
		v = &keptValue[V]{}
		k.all[key] = v
	}
	return v
}
