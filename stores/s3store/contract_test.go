package s3store_test

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The store passes the suite, over front ends whose clocks differ by the skew, and whose Date has
// whole seconds.
func TestContract(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		s.Skew = s3store.DefaultSkew
		h := s.Harness("PUT", func(ctx context.Context, f *front) (driver.Store, error) { return s.openAt(ctx, f) }, s.empty)
		h.Logf = t.Logf
		h.Full, h.FullSays = s.Full("PUT", say(503, "SlowDown", false)), "503"
		h.FullRefuses = []string{"extend", "release", "demotion"}
		for _, failure := range drivertest.Check(h) {
			t.Error(failure)
		}
	})
}
