package stampede

import (
	"context"
	"time"
)

// Values is where values are kept: Memory and Dir in this package, Redis in
// module redissession. It is safe for concurrent use.
type Values interface {
	// Load returns what is kept for key. That nothing is kept is no error:
	// Value is nil then, and Version is told all the same.
	Load(ctx context.Context, key string) (Entry, error)

	// Store keeps e for e.Keep from now on, and reports true; unless e.Version
	// is no longer the version of key, or the value that is kept has a greater
	// fence: then it changes nothing and reports false. It is one step: nothing
	// comes between the look and the change.
	Store(ctx context.Context, key string, e Entry) (bool, error)

	// Discard removes the value and gives key a version that it never had, so
	// that what is made of older data is not kept.
	Discard(ctx context.Context, key string) error
}

// Entry is a value and what is to be known about it.
type Entry struct {
	Value   []byte
	Fence   uint64        // of the lock under which it was made; 0 where the lock store has none
	Version uint64        // of the key: changed by Discard
	Age     time.Duration // since it was stored, by the clock of Values; set by Load
	Fresh   time.Duration // how old it may be and count as fresh
	Keep    time.Duration // after which it is gone
	Took    time.Duration // how long it took to make
}

// absent reports whether nothing is kept.
func (e *Entry) absent() bool { return e.Value == nil }

// fresh reports whether e needs no renewal.
func (e *Entry) fresh() bool { return !e.absent() && e.Age < e.Fresh }

// within reports whether e is at most d older than fresh.
func (e *Entry) within(d time.Duration) bool { return !e.absent() && e.Age < e.Fresh+d }
