package quorum

import (
	"context"
	"slices"
	"sync"
	"time"
)

// orderedMutex lets one call in at a time, in the order of enqueue. A call that has its place waits
// with await, and then calls leave.
type orderedMutex struct {
	mu    sync.Mutex // nothing else is locked while it is held
	taken bool
	queue []place
}

// place is a place in the queue of an orderedMutex. If a call found it free and need not wait, its
// place is nil.
type place chan struct{}

// enqueue adds a place to the end of the queue and returns it.
func (g *orderedMutex) enqueue() place {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.taken {
		g.taken = true
		return nil
	}
	p := make(place)
	g.queue = append(g.queue, p)
	return p
}

// await waits until the call with the place p has the mutex, or until ctx ends. After an error, the
// call has neither the mutex nor a place.
func (g *orderedMutex) await(ctx context.Context, p place) error {
	if p == nil {
		return nil
	}
	select {
	case <-p:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.queue, p)
	if i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // the call got the mutex at the same instant as ctx ended
		g.leave()
	}
	return ctx.Err()
}

// awaitFor is like await, but waits no longer than d.
func (g *orderedMutex) awaitFor(d time.Duration, p place) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return g.await(ctx, p)
}

// leave lets the next call in.
func (g *orderedMutex) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.taken = false
		return
	}
	close(g.queue[0])
	g.queue = g.queue[1:]
}

// isTaken reports whether a call has the mutex.
func (g *orderedMutex) isTaken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken
}
