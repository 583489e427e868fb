package stampede

import (
	"context"
	"sync"
	"time"
)

// Memory keeps values in this process. If there are too many, it forgets those that have not been
// used for the longest time.
//
// A worker calls Load, makes the value, and calls Store. If the key was discarded in between, the
// value is outdated, and Store refuses it. To notice a Discard, Memory counts all calls of Discard.
// Each Discard sets the version of its key to the new count. Store refuses a value if the version
// of the key has changed since Load.
//
// Memory forgets a key together with its version. So Load returns the current count as the version
// of an absent key. If a forgotten key was discarded after that Load, Store refuses the value: the
// forgotten key may be the key of the value.
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
