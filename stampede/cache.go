package stampede

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// Cache makes values under the locks of a Locker and keeps them in Values. It
// is safe for concurrent use.
type Cache struct {
	locker   *padlock.Locker
	values   Values
	defaults settings

	ctx     context.Context // of refreshes in the background; ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	flights     map[string]*flight // of each key the one that callers join
	refreshing  map[string]time.Time
	failed      *lru[failure]
	local       *lru[localValue]
	generations generations
}

var (
	// ErrClosed: the Cache was closed.
	ErrClosed = padlock.ErrClosed
	// ErrNotKept is what OnError gets if a value was made and Values did not
	// keep it, because the key was invalidated meanwhile or a worker with a
	// greater fence was faster. The callers that waited got the value.
	ErrNotKept = errors.New("stampede: the value is not kept: it was out of date when it was made")
)

// New returns a Cache. Values and locks are called by the key, behind a prefix
// that Prefix sets. Options become the defaults of Remember. The Locker stays
// the caller's; it is to be closed after the Cache.
func New(locker *padlock.Locker, values Values, defaults ...Option) *Cache {
	c := &Cache{
		locker: locker, values: values,
		flights: make(map[string]*flight), refreshing: make(map[string]time.Time),
		failed: newLRU[failure](maxRemembered), local: newLRU[localValue](maxRemembered),
		generations: generations{seed: maphash.MakeSeed()},
	}
	c.defaults = settings{
		prefix: "stampede:", lease: 2 * time.Second, errorTTL: time.Second, timeLimit: 5 * time.Minute,
		codec: JSON{}, maxBehind: 64,
	}
	for _, o := range defaults {
		o(&c.defaults)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close lets nothing new begin, cancels all functions that run, and waits for
// them until ctx ends.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Invalidate removes the value of key for all processes. What is being made of
// older data at this moment is not kept; its callers get it, later ones do not.
// In this process no caller that comes after Invalidate gets an older value;
// in others the copies that Local allows live on. The only option that counts
// is Prefix.
func (c *Cache) Invalidate(ctx context.Context, key string, opts ...Option) error {
	s := c.defaults
	for _, o := range opts {
		o(&s)
	}
	name := s.prefix + key
	c.forget(name)
	err := c.values.Discard(ctx, name)
	c.forget(name) // also a flight that began before the Discard
	return err
}

// lockName is name unless that is longer than padlock allows: then a hash takes
// the place of its end.
func lockName(name string) string {
	if len(name) <= maxLockName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:200] + "…sha256:" + hex.EncodeToString(sum[:])
}

const maxLockName = 1024 // driver.MaxName

// Prevent is a guard against doing a thing twice at once. The first caller gets
// a lock, and releases it when the thing is done. Every other caller gets, at
// once, an error that answers errors.Is for padlock.ErrHeld, and skips it.
func (c *Cache) Prevent(ctx context.Context, name string, opts ...padlock.Option) (*padlock.Lock, error) {
	return c.locker.TryAcquire(ctx, lockName(c.defaults.prefix+name), c.lockOptions(&c.defaults, opts)...)
}

// Do calls fn unless another caller runs it already, here or elsewhere; then Do
// reports false. The context of fn ends when the lock is lost.
func (c *Cache) Do(ctx context.Context, name string, fn func(context.Context) error, opts ...padlock.Option) (ran bool, err error) {
	opts = c.lockOptions(&c.defaults, append(opts, padlock.Wait(0)))
	err = c.locker.Do(ctx, lockName(c.defaults.prefix+name), func(ctx context.Context) error {
		ran = true
		return fn(ctx)
	}, opts...)
	if !ran && errors.Is(err, padlock.ErrHeld) {
		return false, nil
	}
	return ran, err
}

// DoPer calls fn at most once per period, over all processes that share the
// lock store: the name stays taken for period from the start of fn, even if fn
// fails or its process dies. It reports false if fn was called less than a
// period ago.
func (c *Cache) DoPer(ctx context.Context, name string, period time.Duration, fn func(context.Context) error, opts ...padlock.Option) (ran bool, err error) {
	return c.Do(ctx, name, fn, append(opts, padlock.HoldAtLeast(period))...)
}

// lockOptions puts the short renewed lease before what the caller wants.
func (c *Cache) lockOptions(s *settings, opts []padlock.Option) []padlock.Option {
	all := make([]padlock.Option, 0, len(opts)+1)
	if c.locker.Guarantees().Lease {
		all = append(all, padlock.TTL(s.lease))
	}
	return append(all, opts...)
}
