package padlockotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockotel"
	"github.com/padlock-go/padlock/stores/memstore"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	l := padlock.New(memstore.New(), padlock.Observe(s.observer))
	defer l.Close(context.Background())
	ctx, caller := s.tracers.Tracer("test").Start(t.Context(), "request")
	var inside trace.SpanContext
	if err := l.Do(ctx, "orders:17", func(ctx context.Context) error {
		inside = trace.SpanContextFromContext(ctx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	caller.End()
	acquire, hold, release := s.span(t, "padlock acquire"), s.span(t, "padlock hold"), s.span(t, "padlock release")
	for _, span := range s.spans.Ended()[:3] {
		if got := attributes(span.Attributes()); span.Parent().SpanID() != caller.SpanContext().SpanID() || got["padlock.lock.name"] != "orders:17" || got["padlock.store"] != "memory" {
			t.Errorf("%s has parent %v and %v", span.Name(), span.Parent().SpanID(), got)
		}
	}
	if events := acquire.Events(); len(events) != 1 || events[0].Name != "granted" || len(acquire.Links()) > 0 {
		t.Errorf("the acquire has the events %v, and links %v", events, acquire.Links())
	}
	if inside.SpanID() != hold.SpanContext().SpanID() || attributes(hold.Attributes())["padlock.lock.fence"] == "0" {
		t.Errorf("inside the span is %v, the hold has %v, %v", inside.SpanID(), hold.SpanContext().SpanID(), hold.Attributes())
	}
	if acquire.EndTime().After(hold.StartTime()) || hold.EndTime().After(release.StartTime()) {
		t.Error("the spans overlap")
	}
}

// A refused acquire is not an error of the program, but a lost lock is one.
func TestOutcomesOfSpans(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	store := memstore.New()
	l := padlock.New(store, padlock.Observe(s.observer))
	other := padlock.New(store, padlock.KeepStoreOpen())
	defer l.Close(context.Background())
	theirs, err := other.Acquire(t.Context(), "job", padlock.Label("report.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(t.Context(), "job"); !errors.Is(err, padlock.ErrHeld) {
		t.Fatal(err)
	}
	refused := s.span(t, "padlock acquire")
	if events := refused.Events(); len(events) != 1 || events[0].Name != "contended" || attributes(events[0].Attributes)["padlock.holder.label"] != "report.sh" {
		t.Errorf("the events are %v", events)
	}
	if refused.Status().Code == codes.Error || attributes(refused.Attributes())["padlock.outcome"] != "held" {
		t.Errorf("status %v, %v", refused.Status(), refused.Attributes())
	}
	if err := theirs.Release(); err != nil {
		t.Fatal(err)
	}
	s.spans.Reset()
	lost, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Break(t.Context(), "job", lost.Fence()); err != nil {
		t.Fatal(err)
	}
	_ = lost.Check(t.Context())
	_ = lost.Release()
	hold := s.span(t, "padlock hold")
	if hold.Status().Code != codes.Error || attributes(hold.Attributes())["error.type"] != "lost" {
		t.Errorf("status %v, %v", hold.Status(), hold.Attributes())
	}
}

// An acquire that finds the lock held is linked to the trace of a holder with TraceHolders. Another
// Observer on the same store stands for another process.
func TestLinkToTheHolder(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	defer store.Close()
	for name, traced := range map[string]bool{"with traces": true, "without traces": false} {
		t.Run(name, func(t *testing.T) {
			waiter, holder := newTelemetry(t), newTelemetry(t)
			var opts []padlock.LockerOption
			if traced {
				opts = append(opts, padlock.TraceHolders(padlockotel.Traceparent))
			}
			open := func(s *telemetry) *padlock.Locker {
				l := padlock.New(store, append(opts, padlock.KeepStoreOpen(), padlock.Observe(s.observer))...)
				t.Cleanup(func() { l.Close(context.Background()) })
				return l
			}
			ctx, job := holder.tracers.Tracer("test").Start(t.Context(), "job")
			lock, err := open(holder).Acquire(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := open(waiter).TryAcquire(t.Context(), name); !errors.Is(err, padlock.ErrHeld) {
				t.Fatal(err)
			}
			if err := lock.Release(); err != nil {
				t.Fatal(err)
			}
			links := 0
			for _, span := range waiter.spans.Ended() {
				for _, link := range span.Links() {
					if links++; link.SpanContext.TraceID() != job.SpanContext().TraceID() {
						t.Errorf("the link leads to %v, the job is %v", link.SpanContext.TraceID(), job.SpanContext().TraceID())
					}
				}
			}
			if (links == 1) != traced {
				t.Errorf("there are %d links", links)
			}
		})
	}
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	if got := padlockotel.Traceparent(t.Context()); got != "" {
		t.Errorf("without a span there is %q", got)
	}
	s := newTelemetry(t)
	ctx, span := s.tracers.Tracer("test").Start(t.Context(), "job")
	if got := padlockotel.Traceparent(ctx); len(got) != 55 || !strings.Contains(got, span.SpanContext().TraceID().String()) {
		t.Errorf("the traceparent is %q", got)
	}
}

// Two observers of one Locker have spans of their own.
func TestTwoObserversOfALocker(t *testing.T) {
	t.Parallel()
	one, two := newTelemetry(t), newTelemetry(t)
	l := padlock.New(memstore.New(), padlock.Observe(one.observer), padlock.Observe(two.observer))
	defer l.Close(context.Background())
	if err := l.Do(t.Context(), "job", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*telemetry{one, two} {
		for _, name := range []string{"padlock acquire", "padlock hold", "padlock release"} {
			s.span(t, name)
		}
	}
}

// The span of a hold of Do is an error if the function returned an error or panicked.
func TestStatusOfTheFunction(t *testing.T) {
	t.Parallel()
	errWork := errors.New("the disk is full")
	for name, c := range map[string]struct {
		fn   func(context.Context) error
		want string
	}{
		"nil":   {func(context.Context) error { return nil }, ""},
		"error": {func(context.Context) error { return errWork }, errWork.Error()},
		"panic": {func(context.Context) error { panic("x") }, "the function panicked or called runtime.Goexit"},
	} {
		s := newTelemetry(t)
		l := padlock.New(memstore.New(), padlock.Observe(s.observer))
		for _, do := range []func() error{
			func() error { return l.Do(t.Context(), "job", c.fn) },
			func() error { return l.DoAll(t.Context(), []string{"job"}, c.fn) },
		} {
			s.spans.Reset()
			func() {
				defer func() { recover() }()
				do()
			}()
			status := s.span(t, "padlock hold").Status()
			if (status.Code == codes.Error) != (c.want != "") || status.Description != c.want {
				t.Errorf("%s: the status is %v", name, status)
			}
			if s.span(t, "padlock release").Status().Code == codes.Error {
				t.Errorf("%s: the release failed", name)
			}
		}
		l.Close(context.Background())
	}
}

// The instrumentation has a version.
func TestVersionOfTheScope(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	l := padlock.New(memstore.New(), padlock.Observe(s.observer))
	defer l.Close(context.Background())
	if err := l.Do(t.Context(), "job", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if scope := s.span(t, "padlock hold").InstrumentationScope(); scope.Version == "" {
		t.Errorf("the spans have the scope %+v", scope)
	}
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.ScopeMetrics {
		if m.Scope.Version == "" {
			t.Errorf("the metrics have the scope %+v", m.Scope)
		}
	}
}
