package padlockotel

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/padlock-go/padlock/internal/group"
)

// scope is the name of the instrumentation.
const scope = "github.com/padlock-go/padlock/observe/padlockotel"

// version returns the version of this module in the program, as the version of the instrumentation.
// It is "(devel)" if the program was built from a directory.
var version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == scope && m.Replace == nil && m.Version != "" {
				return m.Version
			}
		}
	}
	return "(devel)"
})

// Observer is an observer of any number of Lockers. Its methods are safe for concurrent use.
type Observer struct {
	group  func(name string) string
	bound  group.Bound
	meters metric.MeterProvider
	tracer trace.Tracer

	instruments instruments
	attributes  sync.Map // a metric.MeasurementOption for each value of labels
}

// Option configures an Observer.
type Option func(*config)

type config struct {
	group   func(name string) string
	meters  metric.MeterProvider
	tracers trace.TracerProvider
}

// MeterProvider sets where metrics go. The default is otel.GetMeterProvider, as it is when New is
// called. nil leaves the default.
func MeterProvider(p metric.MeterProvider) Option {
	return func(c *config) { c.meters = cmp.Or(p, c.meters) }
}

// TracerProvider sets where spans go. The default is otel.GetTracerProvider, as it is when New is
// called. nil leaves the default. For metrics without spans, give a provider of package
// go.opentelemetry.io/otel/trace/noop.
func TracerProvider(p trace.TracerProvider) Option {
	return func(c *config) { c.tracers = cmp.Or(p, c.tracers) }
}

// Group makes f choose the group of a name. f must be quick and safe for concurrent use. The
// default, which nil leaves in place, is the text before the first ':' or '/'; a name without them
// is its own group.
func Group(f func(name string) string) Option {
	return func(c *config) {
		if f != nil {
			c.group = f
		}
	}
}

// New returns an Observer. It returns an error if the MeterProvider cannot make an instrument.
func New(opts ...Option) (*Observer, error) {
	c := config{group: group.Of, meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	o := &Observer{group: c.group, meters: c.meters, tracer: c.tracers.Tracer(scope, trace.WithInstrumentationVersion(version()))}
	return o, o.instruments.make(o.meter())
}

// meter returns the Meter of this package.
func (o *Observer) meter() metric.Meter {
	return o.meters.Meter(scope, metric.WithInstrumentationVersion(version()))
}

// Traceparent returns the traceparent of the span in ctx, in the format of W3C Trace Context, or ""
// if there is none. It is for padlock.TraceHolders.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
