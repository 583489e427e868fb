package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/metrics"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A server mounts m at /metrics. Prometheus then reads the figures of all locks of the Locker.
func Example() {
	ctx := context.Background()
	m := metrics.New()
	locker := padlock.New(memstore.New(), padlock.Observe(m))
	defer locker.Close(ctx)

	for range 3 {
		if err := locker.Do(ctx, "report:daily", func(context.Context) error { return nil }); err != nil {
			log.Fatal(err)
		}
	}
	page := httptest.NewRecorder()
	m.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if name, _, found := strings.Cut(line, "{"); found && name == "padlock_lock_use_seconds_count" {
			fmt.Print(strings.NewReplacer(",", "\n", "{", "\n", "}", "\n").Replace(line))
		}
	}
	// Output:
	// padlock_lock_use_seconds_count
	// store="memory"
	// group="report"
	// mode="exclusive"
	// outcome="released"
	//  3
}
