package stampede

import (
	"context"
	"fmt"
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
	maxBytes int // 0: no limit

	mu           sync.Mutex
	kept         *lru[kept]
	bytes        int    // the size of all keys and values
	last         uint64 // the version of the last Discard
	maxForgotten uint64 // the greatest version that a Discard gave to a forgotten key
}

type kept struct {
	entry     Entry
	discarded uint64 // the version of the last Discard of the key
	stored    time.Time
}

// MemoryOption configures a Memory: see NewMemory.
type MemoryOption func(*Memory)

// MaxValues limits the number of values. The default is 10,000. The number is at least 1; otherwise
// the default stays, and there is no error.
func MaxValues(n int) MemoryOption {
	return func(m *Memory) {
		if n > 0 {
			m.kept.max = n
		}
	}
}

// MaxBytes limits the size of all keys and encoded values together, in bytes. A value that is
// larger than the limit is not kept: the callers that waited for it get it, and OnError gets an
// error. Without MaxBytes there is no limit. With 0 or less there is none either.
func MaxBytes(n int) MemoryOption { return func(m *Memory) { m.maxBytes = max(n, 0) } }

// NewMemory returns a Memory.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{kept: newLRU[kept](10_000)}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m
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
	case k != nil && (k.entry.Version != e.Version || !k.expired() && k.entry.Fence > e.Fence):
		return false, nil
	case m.maxBytes > 0 && len(key)+len(e.Value) > m.maxBytes:
		return false, fmt.Errorf("stampede: a value of %d bytes is larger than MaxBytes, and is not kept", len(e.Value))
	}
	discarded := uint64(0)
	if k != nil {
		discarded = k.discarded
	}
	m.put(key, kept{entry: e, discarded: discarded, stored: time.Now()})
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

// put keeps k, and forgets the keys for which there is no room.
func (m *Memory) put(key string, k kept) {
	if old := m.kept.getEntry(key); old != nil {
		m.bytes -= old.size(key)
	} else if m.kept.recent.Len() >= m.kept.max {
		m.forget(m.kept.oldest())
	}
	m.bytes += k.size(key)
	m.kept.putEntry(key, k)
	for m.maxBytes > 0 && m.bytes > m.maxBytes && m.kept.recent.Len() > 1 {
		m.forget(m.kept.oldest())
	}
}

func (m *Memory) forget(key string) {
	k := m.kept.getEntry(key)
	m.bytes -= k.size(key)
	m.maxForgotten = max(m.maxForgotten, k.discarded)
	m.kept.remove(key)
}

func (k *kept) size(key string) int { return len(key) + len(k.entry.Value) }
