package stampede

import (
	"context"
	"time"
)

// Values is where values are kept: Memory and Dir in this package, Redis in
// module redissession. It is safe for concurrent use.
//
// Keys have any length and any bytes, and begin with the Prefix of the Cache.
// The Cache also keeps failures there, as values of at most 1,024 keys of its
// own, to share them with other processes.
type Values interface {
	// Load returns the value of key. If none is kept, Value is nil and only
	// Version is set; that is no error.
	Load(ctx context.Context, key string) (Entry, error)

	// Store keeps e for e.Keep from now on, and returns true. It changes
	// nothing and returns false if e.Version is no longer the version of key, or
	// if the value that is kept has a greater fence. Store is one step: nothing
	// comes between the look and the change.
	Store(ctx context.Context, key string, e Entry) (bool, error)

	// Discard removes the value and gives key a version that it never had, so
	// that a value made of older data is not kept.
	Discard(ctx context.Context, key string) error
}

// Entry is a value with its fence, version and times.
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
