package sessionstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A BlobStore keeps one value for each key. Redis strings are an example, and so are the rows of a
// table. FromBlobs turns a BlobStore into a Store. The methods of a BlobStore are safe for
// concurrent use, and each method is one atomic step. They return the same errors as the methods of
// a Store. Package sessiontest checks all of this (RunBlobs).
type BlobStore interface {
	// Get returns the value at key, or ErrNotFound.
	Get(ctx context.Context, key string) (Blob, error)

	// Swap writes data if the value at key still equals *old. If old is nil, there must be no value
	// at key. The new value lives for ttl; 0 means for ever. done reports whether Swap wrote data.
	// If it did not, present is the value that is at key, or nil if there is none. data may be
	// empty or nil: that is a value without bytes.
	Swap(ctx context.Context, key string, old *Blob, data []byte, ttl time.Duration) (done bool, present *Blob, err error)

	// Remove removes the value at key if it still equals *old. If old is nil, Remove removes any
	// value. It reports whether it removed a value.
	Remove(ctx context.Context, key string, old *Blob) (bool, error)

	// Touch makes the value at key live for ttl, counted from this call; 0 means for ever. If there
	// is no value, or if it begins with TombstonePrefix, Touch does nothing. The data stay as they
	// are.
	Touch(ctx context.Context, key string, ttl time.Duration) error
}

// A Blob is a value as Get or Swap found it.
type Blob struct {
	Data []byte
	// Tag is a version that the store may compare instead of Data. Only the store uses it.
	Tag string
	TTL time.Duration // how long it will live; 0: for ever
}

type blobSessions struct {
	Index
	blobs  BlobStore
	format Format
	traits Traits
}

// ownTombstoneKeys reports whether tombstones have keys of their own, next to those of sessions.
func (b *blobSessions) ownTombstoneKeys() bool { return b.traits.CommitsNeedLock }

// pause waits for a random time before a swap is tried again. The more collisions there were, the
// longer that time can be.
func pause(ctx context.Context, try int) error {
	if try < 2 {
		return nil
	}
	return sleep(ctx, rand.N(min(time.Duration(try)*200*time.Microsecond, 5*time.Millisecond)))
}

// sleep waits for d. If ctx ends first, the error is ErrUnavailable, because nothing was written.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

// getOrNil is like Get, but returns nil if there is no value.
func getOrNil(ctx context.Context, blobs BlobStore, key string) (*Blob, error) {
	blob, err := blobs.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &blob, nil
}
