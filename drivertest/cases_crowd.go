package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
)

var crowdCases = []testCase{
	{
		name:   "crowd/exclusive",
		clause: "A store is safe for concurrent use: of many callers that ask at once, one holds the name at a time, with a greater fence than the one before.",
		f:      func(c *check) { c.crowd(false, false) },
	},
	{
		name:   "crowd/shared",
		clause: "Among many readers and writers that ask at once, a writer is always alone.",
		needs:  []need{readers},
		f:      func(c *check) { c.crowd(true, false) },
	},
	{
		name:   "crowd/waiting",
		clause: "Of many waiters, one holds the name at a time, and all get it.",
		needs:  []need{waits},
		f:      func(c *check) { c.crowd(false, true) },
	},
}

// referee counts the readers and writers that hold the name. Its counters are atomic, because the
// locks under test do not make memory accesses safe, as a sync.Mutex does.
type referee struct {
	writers, readers atomic.Int64
	fence            atomic.Uint64
	mu               sync.Mutex
	seen             error
}

func (f *referee) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = err
	}
}

func (f *referee) enter(g driver.Grant, shared, fenced bool) {
	if shared {
		f.readers.Add(1)
		if w := f.writers.Load(); w > 0 {
			f.fail(safety.ErrTwoHold("a reader was let in while there were %d writers", w))
		}
		return
	}
	if w, r := f.writers.Add(1), f.readers.Load(); w > 1 || r > 0 {
		f.fail(safety.ErrTwoHold("a writer was let in while there were %d writers and %d readers", w-1, r))
	}
	if err := safety.FenceRises(g.Fence, f.fence.Swap(g.Fence)); fenced && err != nil {
		f.fail(err)
	}
}

func (f *referee) leave(shared bool) {
	if shared {
		f.readers.Add(-1)
	} else {
		f.writers.Add(-1)
	}
}

func (c *check) crowd(mixed, waiting bool) {
	const workers = 8
	rounds := 15
	if c.h.Slow {
		rounds = 4
	}
	var ref referee
	name := c.newName()
	// A worker without an answer may leave a long lease behind, so its failure ends all of them.
	ctx, end := context.WithCancel(c.ctx)
	defer end()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				r := c.request(name)
				// Half of the workers only read, so that some of them try to read while a writer
				// holds the name.
				r.Shared = mixed && (w%2 == 0 || i%2 == 0)
				stay := time.Duration(1+(w+i)%4) * 50 * time.Microsecond
				if err := c.visit(ctx, []*client{c.a, c.b}[w/2%2], r, stay, &ref, waiting); err != nil {
					ref.fail(err)
					end()
					return
				}
				if r.Shared {
					c.doze(3 * stay) // so that writers find a gap
				}
			}
		})
	}
	wg.Wait()
	if ref.seen != nil {
		c.failf("%v", ref.seen)
	}
}

// visit acquires the name, holds it for a while, and releases it.
func (c *check) visit(ctx context.Context, cl *client, r driver.Request, stay time.Duration, ref *referee, waiting bool) error {
	g, err := cl.Acquire(ctx, r)
	for tries := 0; errors.Is(err, driver.ErrHeld) && tries < maxReturns; tries++ {
		r.Token = driver.TokenOf(newToken()) // the old one is spent
		if waiting {
			if g, err = cl.Wait(ctx, r, true); err == nil && !handed(g) {
				r.Token = driver.TokenOf(newToken())
			}
		} else {
			err = c.doze(time.Duration(1+tries%5) * time.Millisecond / 2)
		}
		if err == nil {
			g, err = cl.Acquire(ctx, r)
		}
	}
	if err != nil {
		return fmt.Errorf("a busy name was not granted in the end: %w", err)
	}
	ref.enter(g, r.Shared, c.g.Fence != driver.FenceNone)
	if _, err := cl.Extend(ctx, r.Name, r.Token.Text(), 0); err != nil {
		return fmt.Errorf("Extend with ttl 0 of a live hold: %w", err)
	}
	if err := c.doze(stay); err != nil {
		return err
	}
	ref.leave(r.Shared)
	_, err = cl.Release(ctx, r.Name, r.Token.Text(), 0)
	return err
}

// doze waits. If the case ends meanwhile, doze returns an error. Unlike nap, it does not panic, so
// goroutines other than that of the case can call it.
func (c *check) doze(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}
