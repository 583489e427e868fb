package session

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

const shards = 64

// Memory keeps sessions in this process: for one server, and for tests. It
// forgets what has expired, without a goroutine of its own. It is safe for
// concurrent use.
type Memory struct {
	seed   maphash.Seed
	shards [shards]memoryShard
}

type memoryShard struct {
	mu       sync.Mutex
	sessions map[string]*memorySession
	sweepAt  int // how many sessions make the next one look for expired ones
}

type memorySession struct {
	fields   map[string][]byte
	version  uint64
	deadline time.Time
	expires  time.Time // zero: never
	moved    Moved
}

// sweepFrom is the least number of sessions of a shard worth sweeping.
const sweepFrom = 64

// NewMemory returns a store with no sessions in it.
func NewMemory() *Memory {
	m := &Memory{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i] = memoryShard{sessions: make(map[string]*memorySession), sweepAt: sweepFrom}
	}
	return m
}

// Traits implements Store.
func (m *Memory) Traits() Traits { return Traits{} }

// Len counts the sessions and tombstones, those that have expired and were not
// swept yet included.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += len(m.shards[i].sessions)
		m.shards[i].mu.Unlock()
	}
	return n
}

// lock returns key's shard, locked, and what lives at key now.
func (m *Memory) lock(key string) (*memoryShard, *memorySession) {
	sh := &m.shards[maphash.String(m.seed, key)%shards]
	sh.mu.Lock()
	s := sh.sessions[key]
	if s != nil && s.expired(time.Now()) {
		delete(sh.sessions, key)
		s = nil
	}
	return sh, s
}

func (s *memorySession) expired(now time.Time) bool {
	return !s.expires.IsZero() && !now.Before(s.expires)
}

// sweep drops what has expired when the shard has doubled since the last time:
// so it costs each new session a constant share.
func (sh *memoryShard) sweep() {
	if len(sh.sessions) < sh.sweepAt {
		return
	}
	now := time.Now()
	maps.DeleteFunc(sh.sessions, func(_ string, s *memorySession) bool { return s.expired(now) })
	sh.sweepAt = max(sweepFrom, 2*len(sh.sessions))
}

// Load implements Store.
func (m *Memory) Load(ctx context.Context, key string) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, both(ErrUnavailable, err)
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
		return Result{}, both(ErrUnavailable, err)
	}
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
	fields := &memoryFields{maps.Clone(s.fields)}
	values, err := apply(fields, c.Ops, addDecimal)
	if err != nil {
		return Result{}, err
	}
	s.fields, s.moved = fields.m, c.Move
	s.version++
	s.live(c.TTL)
	sh.sessions[key] = s
	sh.sweep()
	return Result{s.versionText(), values}, nil
}

// memoryFields copies what it is given: callers keep their bytes.
type memoryFields struct{ m map[string][]byte }

func (f *memoryFields) Get(key string) ([]byte, bool) { v, ok := f.m[key]; return v, ok }
func (f *memoryFields) Set(key string, v []byte) error {
	f.m[key] = slices.Clone(v)
	return nil
}
func (f *memoryFields) Delete(key string) error { delete(f.m, key); return nil }

// Touch implements Store.
func (m *Memory) Touch(ctx context.Context, key string, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return both(ErrUnavailable, err)
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
		return Moved{}, both(ErrUnavailable, err)
	}
	sh, s := m.lock(key)
	defer sh.mu.Unlock()
	if s == nil {
		return Moved{}, nil
	}
	delete(sh.sessions, key)
	return s.moved, nil
}
