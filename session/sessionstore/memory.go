package sessionstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const shards = 64

// Memory keeps sessions in this process: for a single server, and for tests. It starts no goroutine
// to remove expired sessions. The zero value is ready for use, and it is safe for concurrent use.
type Memory struct {
	max    int // 0 means DefaultMaxSessions
	once   sync.Once
	seed   maphash.Seed
	shards [shards]memoryShard
	count  atomic.Int64 // sessions and tombstones

	users memoryIndex

	sweepMu sync.Mutex
	swept   time.Time // when sweepAll last swept
}

type memoryShard struct {
	mu       sync.Mutex
	sessions map[string]*memorySession
	sweepAt  int // if the shard has at least this many sessions, a new session starts a sweep
}

type memorySession struct {
	fields   map[string][]byte
	size     int // in bytes, of keys and values
	version  uint64
	deadline time.Time
	expires  time.Time // zero if it never expires
	moved    Moved
}

// sweepFrom is the smallest value of sweepAt. A new session starts no sweep of its shard while the
// shard has fewer than sweepFrom sessions.
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

func (m *Memory) init() {
	m.seed = maphash.MakeSeed()
	if m.max <= 0 {
		m.max = DefaultMaxSessions
	}
	for i := range m.shards {
		m.shards[i].sessions, m.shards[i].sweepAt = make(map[string]*memorySession), sweepFrom
	}
}

// Traits implements Store.
func (m *Memory) Traits() Traits { return Traits{} }

// Len counts the sessions and tombstones, including those that have expired and were not removed
// yet.
func (m *Memory) Len() int { return int(m.count.Load()) }

// lock locks the shard of key. It returns the shard and the session that lives at key, if any.
func (m *Memory) lock(key string) (*memoryShard, *memorySession) {
	m.once.Do(m.init)
	sh := &m.shards[maphash.String(m.seed, key)%shards]
	sh.mu.Lock()
	s := sh.sessions[key]
	if s != nil && s.expired(time.Now()) {
		delete(sh.sessions, key)
		m.count.Add(-1)
		s = nil
	}
	return sh, s
}

func (s *memorySession) expired(now time.Time) bool {
	return !s.expires.IsZero() && !now.Before(s.expires)
}

// sweep removes expired sessions when the number of sessions in the shard has doubled since the
// last sweep. So the cost for each new session is constant on average.
func (m *Memory) sweep(sh *memoryShard) {
	if len(sh.sessions) >= sh.sweepAt {
		m.sweepNow(sh, time.Now())
		sh.sweepAt = max(sweepFrom, 2*len(sh.sessions))
	}
}

func (m *Memory) sweepNow(sh *memoryShard, now time.Time) {
	before := len(sh.sessions)
	maps.DeleteFunc(sh.sessions, func(_ string, s *memorySession) bool { return s.expired(now) })
	m.count.Add(int64(len(sh.sessions) - before))
}

// reserve counts a session that is about to be made, if there is room. The caller must not hold the
// lock of any shard.
func (m *Memory) reserve() error {
	if m.count.Add(1) <= int64(m.max) {
		return nil
	}
	m.sweepAll()
	if m.count.Load() <= int64(m.max) {
		return nil
	}
	m.count.Add(-1)
	return fmt.Errorf("%w: it keeps %d sessions and has no room for more (MaxSessions)", ErrUnavailable, m.max)
}

// sweepAll sweeps all shards to make room, at most once a second.
func (m *Memory) sweepAll() {
	m.sweepMu.Lock()
	defer m.sweepMu.Unlock()
	now := time.Now()
	if now.Sub(m.swept) < time.Second {
		return
	}
	m.swept = now
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		m.sweepNow(sh, now)
		sh.mu.Unlock()
	}
}

// Load implements Store.
func (m *Memory) Load(ctx context.Context, key string) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, unavailable(err)
	}
	sh, s := m.lock(key)
	defer sh.mu.Unlock()
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
	if !c.Create {
		return m.commit(key, c)
	}
	m.once.Do(m.init)
	if err := m.reserve(); err != nil {
		return Result{}, err
	}
	res, err := m.commit(key, c)
	if err != nil {
		m.count.Add(-1)
	}
	return res, err
}

func (m *Memory) commit(key string, c Change) (Result, error) {
	sh, s := m.lock(key)
	defer sh.mu.Unlock()
	switch {
	case c.Create && s != nil:
		return Result{}, ErrExists
	case !c.Create && s == nil:
		return Result{}, ErrNotFound
	case s == nil:
		s = &memorySession{fields: make(map[string][]byte), deadline: c.Deadline}
	case s.moved.To != "":
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
	sh.sessions[key] = s
	m.sweep(sh)
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
	sh, s := m.lock(key)
	defer sh.mu.Unlock()
	if s != nil && s.moved.To == "" {
		s.live(ttl)
	}
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string) (Moved, error) {
	if err := ctx.Err(); err != nil {
		return Moved{}, unavailable(err)
	}
	sh, s := m.lock(key)
	defer sh.mu.Unlock()
	if s == nil {
		return Moved{}, nil
	}
	delete(sh.sessions, key)
	m.count.Add(-1)
	return s.moved, nil
}
