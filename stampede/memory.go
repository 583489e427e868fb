package stampede

import (
	"context"
	"sync"
	"time"
)

// Memory keeps values in this process. If there are too many, it forgets those that have not been
// used for the longest time.
//
// A worker loads a key, makes a value and stores it. If the key was discarded between the Load and
// the Store, Store must refuse the value, because it is outdated. To notice this, Memory counts all
// calls of Discard. A Discard gives the new count to the key as its version. A Load of an absent
// key returns the current count as the version. Store refuses a value if the version of the key is
// not the one that Load returned.
//
// When Memory forgets a key, it also forgets whether the key was discarded. But it remembers one
// version for all forgotten keys: the greatest version that a Discard has given to any of them. If
// a worker stores an absent key with a smaller version, the key may have been discarded and
// forgotten since the Load. So Store refuses the value.
type Memory struct {
	mu           sync.Mutex
	kept         *lru[kept]
	last         uint64 // the version of the last Discard
	maxForgotten uint64 // the greatest version that a Discard gave to a forgotten key
}

type kept struct {
	entry     Entry
	discarded uint64 // the version of the last Discard of the key
	stored    time.Time
}

// NewMemory returns a Memory for at most max values; 0 means 10,000.
func NewMemory(max int) *Memory {
	if max <= 0 {
		max = 10_000
	}
	return &Memory{kept: newLRU[kept](max)}
}

// Load implements Values.
func (m *Memory) Load(_ context.Context, key string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kept.getEntry(key)
	switch {
	case k == nil:
		return Entry{Version: m.last}, nil
	case k.expired():
		return Entry{Version: k.entry.Version}, nil
	}
	e := k.entry
	e.Age = time.Since(k.stored)
	return e, nil
}

// expired reports whether there is no value, or its time is over.
func (k *kept) expired() bool {
	return k.entry.absent() || time.Since(k.stored) >= k.entry.Keep
}

// Store implements Values.
func (m *Memory) Store(_ context.Context, key string, e Entry) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kept.getEntry(key)
	switch {
	case k == nil && e.Version < m.maxForgotten:
		return false, nil
	case k == nil:
		m.put(key, kept{entry: e, stored: time.Now()})
		return true, nil
	case k.entry.Version != e.Version || !k.expired() && k.entry.Fence > e.Fence:
		return false, nil
	}
	k.entry, k.stored = e, time.Now()
	return true, nil
}

// Discard implements Values.
func (m *Memory) Discard(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.put(key, kept{entry: Entry{Version: m.last}, discarded: m.last})
	return nil
}

func (m *Memory) put(key string, k kept) {
	if forgotten := m.kept.putEntry(key, k); forgotten != nil {
		m.maxForgotten = max(m.maxForgotten, forgotten.discarded)
	}
}
