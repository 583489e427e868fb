package sessionstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Memory keeps sessions in this process: for a single server, and for tests. It starts no goroutine
// to remove expired sessions. The zero value is ready for use, and it is safe for concurrent use.
type Memory struct {
	max      int // 0 means DefaultMaxSessions
	mu       sync.Mutex
	sessions map[string]*memorySession // with tombstones
	sweepAt  int                       // with at least this many sessions, a new session starts a sweep
	swept    time.Time                 // when the last sweep was

	users memoryIndex
}

type memorySession struct {
	fields   map[string][]byte
	size     int // in bytes, of keys and values
	version  uint64
	deadline time.Time
	expires  time.Time // zero if it never expires
	moved    Moved
}

// sweepFrom is the smallest value of sweepAt, unless MaxSessions is less.
const sweepFrom = 64

// DefaultMaxSessions is how many sessions a Memory keeps unless MaxSessions says otherwise. If a
// client does not keep its cookie, a handler that writes to the session makes a new session for
// each of the client's requests. The limit keeps such clients from using up the memory.
const DefaultMaxSessions = 1 << 18

// MemoryOption configures a Memory.
type MemoryOption interface{ applyMemory(*Memory) }

type memoryOption func(*Memory)

func (o memoryOption) applyMemory(m *Memory) { o(m) }

// MaxSessions bounds how many sessions and tombstones are kept. Expired sessions and tombstones
// count until they are removed. When the limit is reached, a new session is refused with
// ErrUnavailable, which is a 503, and existing sessions still work. The number is at least 1. Below
// that, the default applies: DefaultMaxSessions.
func MaxSessions(n int) MemoryOption { return memoryOption(func(m *Memory) { m.max = n }) }

// NewMemory returns an empty store.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{}
	for _, o := range opts {
		if o != nil {
			o.applyMemory(m)
		}
	}
	return m
}

// Traits implements Store.
func (m *Memory) Traits() Traits { return Traits{} }

// Len counts the sessions and tombstones, including those that have expired and were not removed
// yet.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sessions)
}

// lock locks m. It returns the session that lives at key, if any.
func (m *Memory) lock(key string) *memorySession {
	m.mu.Lock()
	if m.sessions == nil {
		if m.max <= 0 {
			m.max = DefaultMaxSessions
		}
		m.sessions, m.sweepAt = make(map[string]*memorySession), min(sweepFrom, m.max)
	}
	s := m.sessions[key]
	if s != nil && s.expired(time.Now()) {
		delete(m.sessions, key)
		return nil
	}
	return s
}

func (s *memorySession) expired(now time.Time) bool {
	return !s.expires.IsZero() && !now.Before(s.expires)
}

// sweep removes expired sessions when the number of sessions has doubled since the last sweep. So
// the cost for each new session is constant on average. It sweeps at most once a second, for a
// store that is full.
func (m *Memory) sweep(now time.Time) {
	if len(m.sessions) < m.sweepAt || now.Sub(m.swept) < time.Second {
		return
	}
	maps.DeleteFunc(m.sessions, func(_ string, s *memorySession) bool { return s.expired(now) })
	m.sweepAt, m.swept = min(max(sweepFrom, 2*len(m.sessions)), m.max), now
}

// Load implements Store.
func (m *Memory) Load(ctx context.Context, key string) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, unavailable(err)
	}
	s := m.lock(key)
	defer m.mu.Unlock()
	if s == nil {
		return Record{}, ErrNotFound
	}
	r := Record{Version: s.versionText(), Deadline: s.deadline, Moved: s.moved}
	if !s.expires.IsZero() {
		r.TTL = max(time.Until(s.expires), 1)
	}
	for _, key := range slices.Sorted(maps.Keys(s.fields)) {
		r.Fields = append(r.Fields, Field{key, s.fields[key]})
	}
	return r, nil
}

func (s *memorySession) versionText() string { return strconv.FormatUint(s.version, 10) }

func (s *memorySession) live(ttl time.Duration) {
	s.expires = time.Time{}
	if ttl > 0 {
		s.expires = time.Now().Add(ttl)
	}
}

// Commit implements Store.
func (m *Memory) Commit(ctx context.Context, key string, c Change) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, unavailable(err)
	}
	s := m.lock(key)
	defer m.mu.Unlock()
	if c.Create {
		m.sweep(time.Now())
		if len(m.sessions) >= m.max {
			return Result{}, fmt.Errorf("%w: it keeps %d sessions and has no room for more (MaxSessions)", ErrUnavailable, m.max)
		}
	}
	switch {
	case c.Create && s != nil:
		return Result{}, ErrExists
	case !c.Create && s == nil:
		return Result{}, ErrNotFound
	case s == nil:
		s = &memorySession{fields: make(map[string][]byte), deadline: c.Deadline}
	case s.moved.To.Text() != "":
		return Result{}, &MovedError{s.moved}
	case c.Version != "" && c.Version != s.versionText():
		return Result{}, &ConflictError{}
	}
	get := func(key string) ([]byte, bool) { v, ok := s.fields[key]; return v, ok }
	if err := checkUnchanged(c.Unchanged, get, slices.Equal[[]byte]); err != nil {
		return Result{}, err
	}
	fields := &memoryFields{m: maps.Clone(s.fields), size: s.size}
	values, err := apply(fields, c.Ops, addDecimal)
	if err == nil {
		err = checkSize(s.size, fields.size, c.MaxSize)
	}
	if err != nil {
		return Result{}, err
	}
	s.fields, s.size, s.moved = fields.m, fields.size, c.Move
	s.version++
	s.live(c.TTL)
	m.sessions[key] = s
	return Result{s.versionText(), values}, nil
}

// memoryFields holds the fields of a session. It copies the values that it stores, because callers
// may reuse their bytes. It counts the bytes of keys and values.
type memoryFields struct {
	m    map[string][]byte
	size int
}

func (f *memoryFields) Get(key string) ([]byte, bool) { v, ok := f.m[key]; return v, ok }

func (f *memoryFields) Set(key string, v []byte) error {
	f.Delete(key)
	f.m[key] = slices.Clone(v)
	f.size += len(key) + len(v)
	return nil
}

func (f *memoryFields) Delete(key string) error {
	if v, ok := f.m[key]; ok {
		f.size -= len(key) + len(v)
		delete(f.m, key)
	}
	return nil
}

// Touch implements Store.
func (m *Memory) Touch(ctx context.Context, key string, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	s := m.lock(key)
	defer m.mu.Unlock()
	if s != nil && s.moved.To.Text() == "" {
		s.live(ttl)
	}
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string) (Moved, error) {
	if err := ctx.Err(); err != nil {
		return Moved{}, unavailable(err)
	}
	s := m.lock(key)
	defer m.mu.Unlock()
	if s == nil {
		return Moved{}, nil
	}
	delete(m.sessions, key)
	return s.moved, nil
}
