package quorum

import (
	"context"
	"slices"
	"time"
)

// gate lets one call in at a time, in the order in which they came.
type gate struct {
	taken bool
	queue []place
}

// place is a place in the queue of a gate. If a call found the gate free and need not wait, its
// place is nil.
type place chan struct{}

// enqueue adds a place to the end of the queue and returns it. The caller holds mu.
func (g *gate) enqueue() place {
	if !g.taken {
		g.taken = true
		return nil
	}
	p := make(place)
	g.queue = append(g.queue, p)
	return p
}

// await waits until the call with the place p may enter the gate, or until ctx ends.
func (s *Store) await(ctx context.Context, g *gate, p place) error {
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
func (s *Store) awaitFor(d time.Duration, g *gate, p place) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.await(ctx, g, p)
}

// letIn lets the next call in. The caller holds mu.
func (g *gate) letIn() {
	if len(g.queue) == 0 {
		g.taken = false
		return
	}
	close(g.queue[0])
	g.queue = g.queue[1:]
}

func (s *Store) leave(g *gate) {
	s.mu.Lock()
	g.letIn()
	s.mu.Unlock()
}
