package padlockotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/padlock-go/padlock"
)

// call has the spans of one acquire and of the hold that it takes. padlock delivers the events of
// an acquire and its hold one at a time, so nothing guards the fields. A span is nil before it
// begins.
//
//	event                  acquire          hold            release
//	EventAcquiring         begins
//	EventContended         event, link
//	EventAcquired          event, ends      begins
//	EventRefused           ends
//	EventRenewFailed                        event
//	EventLost, EventEnded                   ends
//	EventReleasing                          ends            begins
//	EventReleased                                           ends
type call struct {
	parent                 trace.Span // of the caller
	acquire, hold, release trace.Span
}

// callKey is the key of a call in a context. A Locker can have several Observers, and each has a
// call of its own.
type callKey struct{ o *Observer }

func (o *Observer) callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{o}).(*call)
	return c
}

// start starts a span that is a child of the caller's span.
func (o *Observer) start(ctx context.Context, c *call, what string, e *padlock.Event) (context.Context, trace.Span) {
	return o.tracer.Start(trace.ContextWithSpan(ctx, c.parent), "padlock "+what, trace.WithAttributes(
		attribute.String("padlock.lock.name", e.Name), attribute.String("padlock.store", e.Store), attribute.String("padlock.mode", e.Mode.String())))
}

func (o *Observer) startAcquire(ctx context.Context, e *padlock.Event) context.Context {
	c := &call{parent: trace.SpanFromContext(ctx)}
	ctx, c.acquire = o.start(ctx, c, "acquire", e)
	return context.WithValue(ctx, callKey{o}, c)
}

func (o *Observer) startHold(ctx context.Context, e *padlock.Event) context.Context {
	c := o.callOf(ctx)
	if c == nil {
		return ctx
	}
	c.acquire.AddEvent("granted", trace.WithAttributes(fence(e), attribute.String("padlock.hand_over", e.HandOver.String())))
	finish(c.acquire, e, false)
	ctx, c.hold = o.start(ctx, c, "hold", e)
	c.hold.SetAttributes(fence(e))
	return ctx
}

func (o *Observer) startRelease(ctx context.Context, e *padlock.Event) context.Context {
	c := o.callOf(ctx)
	if c == nil {
		return ctx
	}
	if c.hold != nil && e.Err != nil { // Do ran a function that failed
		c.hold.SetAttributes(attribute.String("error.type", "_OTHER"))
		c.hold.SetStatus(codes.Error, e.Err.Error())
	}
	c.endHold(e, false)
	ctx, c.release = o.start(ctx, c, "release", e)
	return ctx
}

// endHold ends the span of a hold, once.
func (c *call) endHold(e *padlock.Event, failed bool) {
	if c.hold != nil {
		finish(c.hold, e, failed)
		c.hold = nil
	}
}

// trace updates the spans for an event.
func (o *Observer) trace(ctx context.Context, e *padlock.Event) {
	c := o.callOf(ctx)
	if c == nil {
		return
	}
	switch e.Kind {
	case padlock.EventContended:
		c.recordContention(e)
	case padlock.EventRefused:
		finish(c.acquire, e, !refusal(e.Outcome))
	case padlock.EventRenewFailed:
		if c.hold != nil {
			c.hold.AddEvent("renewal failed", trace.WithAttributes(
				attribute.Float64("padlock.slack_seconds", e.Slack.Seconds()), attribute.String("exception.message", text(e.Err))))
		}
	case padlock.EventLost, padlock.EventEnded:
		c.endHold(e, e.Kind == padlock.EventLost)
	case padlock.EventReleased:
		if c.release != nil {
			finish(c.release, e, e.Err != nil)
			c.release = nil
		}
	}
}

// refusal reports whether an acquire ended without the lock although nothing failed: the lock was
// held, or the wait timed out or was canceled.
func refusal(out padlock.Outcome) bool {
	return out == padlock.OutcomeHeld || out == padlock.OutcomeTimeout || out == padlock.OutcomeCanceled
}

// recordContention records the holder of the lock in the span of the acquire, and links the acquire
// to the holder's trace.
func (c *call) recordContention(e *padlock.Event) {
	var known []attribute.KeyValue
	var held *padlock.HeldError
	if errors.As(e.Err, &held) {
		for i, h := range held.Holds {
			if i == 0 {
				known = []attribute.KeyValue{
					attribute.String("padlock.holder.host", h.Host), attribute.Int("padlock.holder.pid", h.PID), attribute.String("padlock.holder.label", h.Label),
				}
			}
			if span := spanContext(h.Trace); span.IsValid() && i < maxLinks {
				c.acquire.AddLink(trace.Link{SpanContext: span, Attributes: []attribute.KeyValue{attribute.String("padlock.link", "holder")}})
			}
		}
	}
	c.acquire.AddEvent("contended", trace.WithAttributes(known...))
}

// maxLinks is the largest number of holders to which an acquire is linked. A lock has several
// holders only if they are readers.
const maxLinks = 8

// finish ends a span with the outcome of an event.
func finish(span trace.Span, e *padlock.Event, failed bool) {
	if e.Outcome != padlock.OutcomeNone {
		span.SetAttributes(attribute.String("padlock.outcome", e.Outcome.String()))
	}
	if failed {
		span.SetAttributes(attribute.String("error.type", e.Outcome.String()))
		span.SetStatus(codes.Error, text(e.Err))
	}
	span.End()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// fence returns the fence as an attribute. Every fence is below 2^53.
func fence(e *padlock.Event) attribute.KeyValue {
	return attribute.Int64("padlock.lock.fence", int64(e.Fence))
}

// spanContext reads a traceparent. For any other text, the result is not valid.
func spanContext(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
