package stampede

import (
	"context"
	"sync"
	"time"
)

// Memory keeps values in this process, and forgets those not used for longest
// when there are too many.
//
// Versions come from one counter that every Discard raises. An absent key has
// the present value of the counter as its version. So a worker whose key is
// absent when it stores may store unless a Discard of its key came after its
// Load. If Memory has forgotten that Discard, it is one of those at or below
// floor: a worker with a smaller version is refused.
type Memory struct {
	mu    sync.Mutex
	kept  *lru[kept]
	last  uint64 // the version that the last Discard gave
	floor uint64 // the greatest version given by a Discard that is forgotten
}

type kept struct {
	entry     Entry
	discarded uint64 // the version that the last Discard of the key gave
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
	k := m.kept.get(key)
	switch {
	case k == nil:
		return Entry{Version: m.last}, nil
	case k.over():
		return Entry{Version: k.entry.Version}, nil
	}
	e := k.entry
	e.Age = time.Since(k.stored)
	return e, nil
}

// over reports whether there is no value, or no longer.
func (k *kept) over() bool {
	return k.entry.absent() || time.Since(k.stored) >= k.entry.Keep
}

// Store implements Values.
func (m *Memory) Store(_ context.Context, key string, e Entry) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kept.get(key)
	switch {
	case k == nil && e.Version < m.floor:
		return false, nil
	case k == nil:
		m.put(key, kept{entry: e, stored: time.Now()})
		return true, nil
	case k.entry.Version != e.Version || !k.over() && k.entry.Fence > e.Fence:
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
	if forgotten := m.kept.put(key, k); forgotten != nil {
		m.floor = max(m.floor, forgotten.discarded)
	}
}
