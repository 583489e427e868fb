package quorum

import (
	"context"
	"slices"
	"time"
)

// orderedMutex lets one call in at a time, in the order in which they came.
type orderedMutex struct {
	taken bool
	queue []place
}

// place is a place in the queue of an orderedMutex. If a call found it free and need not wait, its
// place is nil.
type place chan struct{}

// enqueue adds a place to the end of the queue and returns it. The caller holds mu.
func (g *orderedMutex) enqueue() place {
	if !g.taken {
		g.taken = true
		return nil
	}
	p := make(place)
	g.queue = append(g.queue, p)
	return p
}

// await waits until the call with the place p has the mutex, or until ctx ends.
func (s *Store) await(ctx context.Context, g *orderedMutex, p place) error {
	if p == nil {
		return nil
	}
	select {
	case <-p:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(g.queue, p); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	} else {
		g.letIn() // the turn came at the same instant as the end of ctx
	}
	return ctx.Err()
}

// awaitFor is like await, but waits no longer than d.
func (s *Store) awaitFor(d time.Duration, g *orderedMutex, p place) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.await(ctx, g, p)
}

// letIn lets the next call in. The caller holds mu.
func (g *orderedMutex) letIn() {
	if len(g.queue) == 0 {
		g.taken = false
		return
	}
	close(g.queue[0])
	g.queue = g.queue[1:]
}

func (s *Store) leave(g *orderedMutex) {
	s.mu.Lock()
	g.letIn()
	s.mu.Unlock()
}
