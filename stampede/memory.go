package stampede

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory keeps values in this process, and forgets those not used for longest
// when there are too many.
type Memory struct {
	mu      sync.Mutex
	max     int
	entries map[string]*list.Element
	recent  *list.List // of *kept, the last used in front
	floor   uint64     // the version of all keys that are not in entries
}

type kept struct {
	key    string
	entry  Entry
	stored time.Time
}

// NewMemory returns a Memory for at most max values; 0 means 10,000.
func NewMemory(max int) *Memory {
	if max <= 0 {
		max = 10_000
	}
	return &Memory{max: max, entries: make(map[string]*list.Element), recent: list.New()}
}

// Load implements Values.
func (m *Memory) Load(_ context.Context, key string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(key)
	if k == nil {
		return Entry{Version: m.floor}, nil
	}
	e := k.entry
	e.Age = time.Since(k.stored)
	if !e.absent() && e.Age >= e.Keep {
		return Entry{Version: e.Version}, nil
	}
	return e, nil
}

// Store implements Values.
func (m *Memory) Store(_ context.Context, key string, e Entry) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(key); k != nil {
		if k.entry.Version != e.Version || !k.entry.absent() && k.entry.Fence > e.Fence {
			return false, nil
		}
		k.entry, k.stored = e, time.Now()
		return true, nil
	}
	if e.Version != m.floor {
		return false, nil
	}
	m.add(&kept{key, e, time.Now()})
	return true, nil
}

// Discard implements Values.
func (m *Memory) Discard(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(key); k != nil {
		k.entry = Entry{Version: k.entry.Version + 1}
		return nil
	}
	m.add(&kept{key: key, entry: Entry{Version: m.floor + 1}})
	return nil
}

func (m *Memory) find(key string) *kept {
	el := m.entries[key]
	if el == nil {
		return nil
	}
	m.recent.MoveToFront(el)
	return el.Value.(*kept)
}

// add makes room by forgetting. The versions of what is forgotten must not
// come back, so the floor rises above them.
func (m *Memory) add(k *kept) {
	m.entries[k.key] = m.recent.PushFront(k)
	for m.recent.Len() > m.max {
		last := m.recent.Back()
		gone := m.recent.Remove(last).(*kept)
		delete(m.entries, gone.key)
		if !gone.entry.absent() && gone.entry.Version == m.floor {
			continue // it was never discarded: nobody can hold another version
		}
		m.floor = max(m.floor, gone.entry.Version) + 1
	}
}
