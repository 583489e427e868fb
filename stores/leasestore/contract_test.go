package leasestore_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

var clock = flag.String("clock", "observed", "TestContract: by which clock the store judges, observed or server")

// The store passes the suite. With observation, the clocks of the servers have nothing to do with
// each other. With the clock of the server, they differ by two seconds.
func TestContract(t *testing.T) {
	skew := map[string]time.Duration{"observed": 1000 * time.Hour, "server": 2 * time.Second}[*clock]
	if skew == 0 {
		t.Fatalf("-clock %s: it is observed or server", *clock)
	}
	inMemory(t, func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service) {
		s.Skew = skew
		h := s.Harness("write", func(ctx context.Context, front *overhttptest.Front) (driver.Store, error) {
			return openOn(ctx, front, *clock == "server")
		}, f.Empty)
		h.Logf = t.Logf
		h.Full, h.FullSays = s.Full("write", overhttptest.Say(429, "", false)), "429"
		h.FullRefuses = []string{"extend", "release", "demotion"}
		for _, failure := range drivertest.Check(h) {
			t.Error(failure)
		}
	})
}
