package stampede

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/padlock-go/padlock"
)

// core is a Cache without its type parameter.
type core struct {
	locker   *padlock.Locker
	values   Values
	prefix   string // of the names of values and locks
	settings settings

	ctx     context.Context // for refreshes in the background; close ends it
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	pending     map[string]*pendingValue // by key: the pendingValue that new callers join
	refreshing  map[string]time.Time
	failed      *lru[failure]
	local       *lru[localValue]
	generations generations
	spare       spare

	tally tally
}

func newCore(locker *padlock.Locker, values Values, prefix string, s settings) *core {
	c := &core{
		locker: locker, values: values, prefix: prefix, settings: s,
		pending: make(map[string]*pendingValue), refreshing: make(map[string]time.Time),
		failed: newLRU[failure](maxRemembered), local: newLRU[localValue](maxRemembered),
		generations: generations{seed: maphash.MakeSeed()},
		spare:       spare{entries: newLRU[spareEntry](maxRemembered)},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *core) close(ctx context.Context) error {
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

func (c *core) invalidate(ctx context.Context, key string) error {
	name := c.prefix + key
	c.forget(name)
	err := c.values.Discard(ctx, name)
	c.forget(name) // again, because a Get may have loaded the old value before the Discard
	return err
}
