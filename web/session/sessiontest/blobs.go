package sessiontest

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/padlock-go/padlock/web/session/sessionstore"
)

// Blobs keeps single values in memory. It is for tests of code that is built on a
// sessionstore.BlobStore. It is safe for concurrent use.
type Blobs struct {
	mu     sync.Mutex
	values map[string]blob
}

type blob struct {
	data    []byte
	expires time.Time // zero if it never expires
}

// NewBlobs returns an empty Blobs.
func NewBlobs() *Blobs { return &Blobs{values: make(map[string]blob)} }

// valueAt returns the value that lives at key, or nil.
func (b *Blobs) valueAt(key string) *sessionstore.Blob {
	v, ok := b.values[key]
	switch {
	case !ok:
		return nil
	case v.expires.IsZero():
		return &sessionstore.Blob{Data: v.data}
	}
	left := time.Until(v.expires)
	if left <= 0 {
		delete(b.values, key)
		return nil
	}
	return &sessionstore.Blob{Data: v.data, TTL: left}
}

// Get implements sessionstore.BlobStore.
func (b *Blobs) Get(ctx context.Context, key string) (sessionstore.Blob, error) {
	if err := ctx.Err(); err != nil {
		return sessionstore.Blob{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if v := b.valueAt(key); v != nil {
		return *v, nil
	}
	return sessionstore.Blob{}, sessionstore.ErrNotFound
}

func same(a, b *sessionstore.Blob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Data, b.Data)
}

// Swap implements sessionstore.BlobStore.
func (b *Blobs) Swap(ctx context.Context, key string, old *sessionstore.Blob, data []byte, ttl time.Duration) (bool, *sessionstore.Blob, error) {
	if err := ctx.Err(); err != nil {
		return false, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.valueAt(key); !same(now, old) {
		return false, now, nil
	}
	b.set(key, bytes.Clone(data), ttl)
	return true, nil, nil
}

func (b *Blobs) set(key string, data []byte, ttl time.Duration) {
	v := blob{data: data}
	if ttl > 0 {
		v.expires = time.Now().Add(ttl)
	}
	b.values[key] = v
}

// Remove implements sessionstore.BlobStore.
func (b *Blobs) Remove(ctx context.Context, key string, old *sessionstore.Blob) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.valueAt(key)
	if now == nil || old != nil && !same(now, old) {
		return false, nil
	}
	delete(b.values, key)
	return true, nil
}

// Touch implements sessionstore.BlobStore.
func (b *Blobs) Touch(ctx context.Context, key string, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.valueAt(key); now != nil && !bytes.HasPrefix(now.Data, []byte(sessionstore.TombstonePrefix)) {
		b.set(key, now.Data, ttl)
	}
	return nil
}

// Put writes a value, whatever the present value is. The value never expires. Programs other than
// padlock write in this way.
func (b *Blobs) Put(key string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(key, bytes.Clone(data), 0)
}
