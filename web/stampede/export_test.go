package stampede

import (
	"context"
	"time"

	"github.com/padlock-go/padlock"
)

// Family is the part of a Cache that is shared by all keys. With it a test gives each call a
// function and options of its own.
type Family struct {
	*core
	Locker *padlock.Locker
}

// NewFamily returns a Family whose names begin with "stampede:test:".
func NewFamily(locker *padlock.Locker, values Values, opts ...Option) *Family {
	c, err := New(locker, values, "test", func(context.Context, string) (any, error) { return nil, nil }, append([]Option{Fresh(0)}, opts...)...)
	if err != nil {
		panic(err)
	}
	return &Family{c.c, locker}
}

// LockName returns the name of the lock for a key of any length.
func LockName(l *padlock.Locker, key string) string { return lockName(l, key) }

// Invalidate is Cache.Invalidate.
func (f *Family) Invalidate(ctx context.Context, key string) error { return f.invalidate(ctx, key) }

// Close is Cache.Close.
func (f *Family) Close(ctx context.Context) error { return f.close(ctx) }

// Remember is Cache.Get with a function of the call.
func Remember[T any](ctx context.Context, f *Family, key string, ttl time.Duration, fn func(context.Context) (T, error), opts ...Option) (T, error) {
	s := f.settings
	s.ttl = ttl
	for _, o := range opts {
		o(&s)
	}
	return getTyped(ctx, f.core, s, key, fn)
}

// SpareBytes is the size of the copies that are used while Values cannot be reached.
func (f *Family) SpareBytes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spare.bytes
}
