package soak

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/padlock-go/padlock"
)

// observer counts the locks that a Locker holds, as the description of padlock.EventAcquiring says.
type observer struct{ held, pending atomic.Int64 }

// Observe counts one event.
func (o *observer) Observe(_ context.Context, e padlock.Event) {
	switch e.Kind {
	case padlock.EventAcquiring:
		o.pending.Add(1)
	case padlock.EventRefused:
		o.pending.Add(-1)
	case padlock.EventAcquired:
		o.pending.Add(-1)
		o.held.Add(1)
	case padlock.EventReleasing, padlock.EventLost, padlock.EventEnded:
		o.held.Add(-1)
	}
}

// left describes what is still going on by the events, although the Locker is closed. It returns ""
// if that is nothing, or if o is nil.
func (o *observer) left() string {
	if o == nil || o.held.Load() == 0 && o.pending.Load() == 0 {
		return ""
	}
	return fmt.Sprintf("by the events of the closed Locker, %d locks are held and %d acquires under way", o.held.Load(), o.pending.Load())
}
