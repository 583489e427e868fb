package padlockotel

import (
	"context"

	"github.com/padlock-go/padlock"
)

var _ padlock.ContextObserver = (*Observer)(nil)

// ObserveStart implements padlock.ContextObserver.
func (o *Observer) ObserveStart(ctx context.Context, e padlock.Event) context.Context {
	switch e.Kind {
	case padlock.EventAcquiring:
		ctx = o.startAcquire(ctx, &e)
		o.count(ctx, &e)
		return ctx
	case padlock.EventAcquired:
		o.count(ctx, &e) // passes ctx, so that the span of the acquire becomes the exemplar
		return o.startHold(ctx, &e)
	case padlock.EventReleasing:
		o.count(ctx, &e)
		return o.startRelease(ctx, &e)
	}
	o.Observe(ctx, e)
	return ctx
}

// Observe implements padlock.Observer.
func (o *Observer) Observe(ctx context.Context, e padlock.Event) {
	o.count(ctx, &e)
	o.trace(ctx, &e)
}
