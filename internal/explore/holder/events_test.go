package holder

import (
	"context"
	"fmt"
	"sync"

	"github.com/padlock-go/padlock"
)

// events is an observer that counts.
type events struct {
	mu sync.Mutex
	n  map[padlock.EventKind]uint64
	// last is the last event that ended a hold.
	last padlock.EventKind
}

func (e *events) Observe(_ context.Context, event padlock.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n[event.Kind]++
	switch event.Kind {
	case padlock.EventLost, padlock.EventEnded, padlock.EventReleasing:
		e.last = event.Kind
	}
}

// judge compares the events with what c has seen, while no call of c is under way.
func (e *events) judge(c *caller, held int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.n
	ends := n[padlock.EventLost] + n[padlock.EventEnded] + n[padlock.EventReleasing]
	switch {
	case n[padlock.EventAcquiring] != uint64(c.acquires), n[padlock.EventAcquired] != c.got, n[padlock.EventRefused] != c.refused:
	case n[padlock.EventAcquired] != ends+uint64(held), n[padlock.EventReleased] != c.releases, n[padlock.EventLost] != c.lost:
	case n[padlock.EventRenewed] != c.w.confirmed[c.who], n[padlock.EventRenewFailed] != c.w.failed[c.who]:
	default:
		return nil
	}
	return fmt.Errorf("acquired %d, refused %d, held %d, lost %d, released %d, renewed %d, failed %d; the events are %v",
		c.got, c.refused, held, c.lost, c.releases, c.w.confirmed[c.who], c.w.failed[c.who], n)
}
