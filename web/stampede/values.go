package stampede

import (
	"context"
	"time"
)

// Values is the storage of a Cache. This package has Memory and Dir, and module redissession has
// one in Redis. Values is safe for concurrent use.
//
// Keys have any length and any bytes, and begin with the Cache's prefix "stampede:NAME:". The Cache
// also shares failures through Values, under at most 1,024 further keys.
type Values interface {
	// Load returns the value of key. If none is kept, Load returns no error, Value is nil, and only
	// Version is set.
	Load(ctx context.Context, key string) (Entry, error)

	// Store keeps e for e.Keep from now on, and returns true. If e.Version is no longer the version
	// of key, or if the stored value has a greater fence, Store changes nothing and returns false.
	// The check and the change are one atomic step.
	Store(ctx context.Context, key string, e Entry) (bool, error)

	// Discard removes the value and gives key a new version that it never had before. So a value
	// that was made from older data is not kept.
	Discard(ctx context.Context, key string) error
}

// Entry is a value with its fence, version and times.
type Entry struct {
	Value   []byte
	Fence   uint64        // the fence of the lock under which the value was made; 0 if the lock store has no fences
	Version uint64        // the version of the key; Discard changes it
	Age     time.Duration // how long ago the value was stored, by the clock of Values; set by Load
	Fresh   time.Duration // the value is fresh while Age is less than Fresh
	Keep    time.Duration // how long the value is kept
	Took    time.Duration // how long the function took to make the value
}

// absent reports whether no value is kept.
func (e *Entry) absent() bool { return e.Value == nil }

// fresh reports whether e needs no renewal.
func (e *Entry) fresh() bool { return !e.absent() && e.Age < e.Fresh }

// within reports whether e is fresh, or its fresh time ended less than d ago.
func (e *Entry) within(d time.Duration) bool { return !e.absent() && e.Age-e.Fresh < d }
