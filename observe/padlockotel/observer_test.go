package padlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockotel"
	"github.com/padlock-go/padlock/stores/memstore"
)

// telemetry is an SDK that keeps everything in memory.
type telemetry struct {
	reader   *sdkmetric.ManualReader
	spans    *tracetest.SpanRecorder
	tracers  *sdktrace.TracerProvider
	observer *padlockotel.Observer
}

func newTelemetry(t *testing.T, opts ...padlockotel.Option) *telemetry {
	t.Helper()
	s := &telemetry{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader))
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	var err error
	s.observer, err = padlockotel.New(append(opts, padlockotel.MeterProvider(meters), padlockotel.TracerProvider(s.tracers))...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// values returns a number for each metric, by name and attributes: the count of a histogram, or the
// value of any other metric. It also checks the buckets of the histograms.
func (s *telemetry) values(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	key := func(name string, set attribute.Set) string {
		return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					out[key(m.Name, p.Attributes)] = int64(p.Count)
					if !slices.Equal(p.Bounds, []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}) || m.Unit != "s" {
						t.Errorf("%s has the buckets %v in %q", m.Name, p.Bounds, m.Unit)
					}
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[key(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					out[key(m.Name, p.Attributes)] = p.Value
				}
			}
		}
	}
	return out
}

func (s *telemetry) want(t *testing.T, want map[string]int64) {
	t.Helper()
	got := s.values(t)
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s is %d, want %d", key, got[key], n)
		}
	}
	if t.Failed() {
		for _, key := range slices.Sorted(maps.Keys(got)) {
			t.Log(key, got[key])
		}
	}
}

// span returns the ended span of a name, which must be the only one.
func (s *telemetry) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, span := range s.spans.Ended() {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d spans %q", len(found), name)
	}
	return found[0]
}

func attributes(of []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range of {
		out[string(kv.Key)] = kv.Value.String()
	}
	return out
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	store := memstore.New()
	l := padlock.New(store, padlock.Observe(s.observer))
	defer l.Close(context.Background())
	err := l.Do(t.Context(), "orders:17", func(ctx context.Context) error {
		s.want(t, map[string]int64{
			"padlock.lock.count{padlock.group=orders,padlock.store=memory}":            1,
			"padlock.lock.pending_requests{padlock.group=orders,padlock.store=memory}": 0,
		})
		_, err := l.TryAcquire(t.Context(), "orders:17")
		return err
	})
	if !errors.Is(err, padlock.ErrHeld) {
		t.Fatal(err)
	}
	lost, err := l.Acquire(t.Context(), "orders:18")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Break(t.Context(), "orders:18", lost.Fence()); err != nil {
		t.Fatal(err)
	}
	if err := lost.Check(t.Context()); !errors.Is(err, padlock.ErrLost) {
		t.Fatal(err)
	}
	if _, err := l.Acquire(t.Context(), ""); !errors.Is(err, padlock.ErrInvalid) {
		t.Fatal(err)
	}
	_ = lost.Release()
	s.want(t, map[string]int64{
		"padlock.lock.count{padlock.group=orders,padlock.store=memory}":                                                     0,
		"padlock.lock.wait_time{padlock.group=orders,padlock.mode=exclusive,padlock.outcome=acquired,padlock.store=memory}": 2,
		"padlock.lock.wait_time{padlock.group=orders,padlock.mode=exclusive,padlock.outcome=held,padlock.store=memory}":     1,
		"padlock.lock.wait_time{error.type=invalid,padlock.mode=exclusive,padlock.outcome=error,padlock.store=memory}":      1,
		"padlock.lock.use_time{padlock.group=orders,padlock.outcome=released,padlock.store=memory}":                         1,
		"padlock.lock.use_time{padlock.group=orders,padlock.outcome=lost,padlock.store=memory}":                             1,
		"padlock.lock.lost{padlock.group=orders,padlock.reason=lost,padlock.store=memory}":                                  1,
	})
}

// Renewals report what was left of the lease.
func TestSlack(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	l := padlock.New(memstore.New(), padlock.Observe(s.observer))
	defer l.Close(context.Background())
	lock, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Extend(t.Context(), 50*time.Second); err != nil {
		t.Fatal(err)
	}
	s.want(t, map[string]int64{"padlock.lock.renewal_slack{padlock.group=job,padlock.store=memory}": 1})
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

// However many names there are, the groups are bounded, and no name is an attribute.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	l := padlock.New(memstore.New(), padlock.Observe(s.observer))
	defer l.Close(context.Background())
	for i := range 150 {
		if err := l.Do(t.Context(), fmt.Sprintf("group%d:secret", i), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	groups := 0
	for key := range s.values(t) {
		if key == "padlock.lock.use_time{padlock.group=_other,padlock.outcome=released,padlock.store=memory}" {
			s.want(t, map[string]int64{key: 50})
			groups++
		} else if len(key) > 22 && key[:22] == "padlock.lock.use_time{" {
			groups++
		}
	}
	if groups != 101 {
		t.Errorf("there are %d groups", groups)
	}
}

type candidate bool

func (c *candidate) Leads() bool { return bool(*c) }

func TestElection(t *testing.T) {
	t.Parallel()
	s, c := newTelemetry(t), candidate(true)
	registration, err := s.observer.Election("mail", &c)
	if err != nil {
		t.Fatal(err)
	}
	s.want(t, map[string]int64{"padlock.election.leading{padlock.election=mail}": 1})
	c = false
	s.want(t, map[string]int64{"padlock.election.leading{padlock.election=mail}": 0})
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
}

func TestStampede(t *testing.T) {
	t.Parallel()
	s := newTelemetry(t)
	c := &counted{hits: 5, stale: 4, misses: 3, runs: 2, errors: 1}
	registration, err := s.observer.Stampede("pages", c)
	if err != nil {
		t.Fatal(err)
	}
	s.want(t, map[string]int64{
		"padlock.stampede.gets{padlock.cache=pages,padlock.result=hit}":   5,
		"padlock.stampede.gets{padlock.cache=pages,padlock.result=stale}": 4,
		"padlock.stampede.gets{padlock.cache=pages,padlock.result=miss}":  3,
		"padlock.stampede.runs{padlock.cache=pages}":                      2,
		"padlock.stampede.errors{padlock.cache=pages}":                    1,
	})
	c.hits = 6
	s.want(t, map[string]int64{"padlock.stampede.gets{padlock.cache=pages,padlock.result=hit}": 6})
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
}

// counted has the figures of a Cache.
type counted struct{ hits, stale, misses, runs, errors uint64 }

func (c *counted) Figures() (hits, stale, misses, runs, errors uint64) {
	return c.hits, c.stale, c.misses, c.runs, c.errors
}
