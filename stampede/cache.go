package stampede

import (
	"context"
	"errors"
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

	mu      sync.Mutex
	closed  bool
	flights map[string]*flight
	failed  map[string]failure // until the back-off is over
	local   map[string]localValue
	// refreshing has the keys that are renewed in the background, and those
	// that were seen to be renewed elsewhere, until when to leave them alone.
	refreshing map[string]time.Time
}

// failure is the error of a function that failed a moment ago.
type failure struct {
	err   error
	until time.Time
}

// ErrClosed: the Cache was closed.
var ErrClosed = padlock.ErrClosed

// New returns a Cache. Locks have the key as their name, behind a prefix that
// Prefix sets. Options become the defaults of Remember. The Locker stays the
// caller's; it is to be closed after the Cache.
func New(locker *padlock.Locker, values Values, defaults ...Option) *Cache {
	c := &Cache{
		locker: locker, values: values,
		flights: make(map[string]*flight), failed: make(map[string]failure),
		local: make(map[string]localValue), refreshing: make(map[string]time.Time),
	}
	c.defaults = settings{prefix: "stampede:", lease: 2 * time.Second, errorTTL: time.Second, codec: JSON{}, maxBehind: 64}
	for _, o := range defaults {
		o(&c.defaults)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close lets nothing new begin, cancels refreshes in the background and waits
// for them, until ctx ends.
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
func (c *Cache) Invalidate(ctx context.Context, key string) error {
	c.forget(key)
	err := c.values.Discard(ctx, key)
	c.forget(key) // also a flight that began before the Discard
	return err
}

// Prevent is a guard against doing a thing twice at once: the first caller
// gets a lock, to be released when it is done; every other gets, at once, an
// error that answers errors.Is for padlock.ErrHeld, and skips the thing.
func (c *Cache) Prevent(ctx context.Context, name string, opts ...padlock.Option) (*padlock.Lock, error) {
	return c.locker.TryAcquire(ctx, c.defaults.prefix+name, c.lockOptions(&c.defaults, opts)...)
}

// Do calls fn unless somebody is at it already, here or elsewhere; then it
// reports false. The context of fn ends when the lock is lost.
func (c *Cache) Do(ctx context.Context, name string, fn func(context.Context) error, opts ...padlock.Option) (ran bool, err error) {
	opts = c.lockOptions(&c.defaults, append(opts, padlock.Wait(0)))
	err = c.locker.Do(ctx, c.defaults.prefix+name, func(ctx context.Context) error {
		ran = true
		return fn(ctx)
	}, opts...)
	if !ran && errors.Is(err, padlock.ErrHeld) {
		return false, nil
	}
	return ran, err
}

// DoPer calls fn at most once per period, over all processes that share the
// lock store: the name stays taken for period from the start of fn, also when
// fn fails or its process dies. It reports false when it was not its turn.
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
