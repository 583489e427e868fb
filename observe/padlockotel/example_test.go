package padlockotel_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/padlockotel"
	"github.com/padlock-go/padlock/stores/memstore"
)

func Example() {
	// These two keep everything in memory. A real program uses an exporter, such as otlptracehttp,
	// instead.
	spans := tracetest.NewInMemoryExporter()
	reader := sdkmetric.NewManualReader()

	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	observer, err := padlockotel.New(padlockotel.TracerProvider(tracers), padlockotel.MeterProvider(meters))
	if err != nil {
		log.Fatal(err)
	}
	locker := padlock.New(memstore.New(),
		padlock.Observe(observer),
		padlock.TraceHolders(padlockotel.Traceparent), // other processes link to this one's traces
	)
	defer locker.Close(context.Background())

	err = locker.Do(context.Background(), "nightly-report", func(ctx context.Context) error {
		return nil // ctx has the span of the hold
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// padlock acquire
	// padlock hold
	// padlock release
}
