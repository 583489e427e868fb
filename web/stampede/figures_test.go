package stampede_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/observe/metrics"
	"github.com/padlock-go/padlock/stores/memstore"
	"github.com/padlock-go/padlock/web/stampede"
)

// Metrics shows the figures of a Cache.
func TestFigures(t *testing.T) {
	m, l := metrics.New(), padlock.New(memstore.New())
	defer l.Close(t.Context())
	pages, err := stampede.New(l, stampede.NewMemory(), "pages", func(_ context.Context, key string) (string, error) {
		if key == "/broken" {
			return "", errors.New("broken")
		}
		return key, nil
	}, stampede.Fresh(time.Hour), stampede.Lease(30*time.Second)) // if the lock is lost, a function that failed runs again
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close(t.Context())
	m.Stampede("pages", pages)
	for _, key := range []string{"/", "/", "/", "/other", "/broken"} {
		pages.Get(t.Context(), key)
	}
	var text strings.Builder
	if _, err := m.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`padlock_stampede_gets_total{cache="pages",result="hit"} 2`, `padlock_stampede_gets_total{cache="pages",result="stale"} 0`,
		`padlock_stampede_gets_total{cache="pages",result="miss"} 3`, `padlock_stampede_runs_total{cache="pages"} 3`,
		`padlock_stampede_errors_total{cache="pages"} 1`,
	} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text.String())
		}
	}
}
