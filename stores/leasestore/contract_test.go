package leasestore_test

import (
	"context"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The store passes the suite. With observation, the servers have clocks that have nothing to do
// with each other. With the clock of the server, they differ by five seconds.
func TestContract(t *testing.T) {
	for name, skew := range map[string]time.Duration{"observed": 1000 * time.Hour, "server": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, f *fake, s *overhttptest.Service) {
				s.Skew = skew
				h := s.Harness("write", func(ctx context.Context, front *overhttptest.Front) (driver.Store, error) {
					return openOn(ctx, front, name == "server")
				}, f.empty)
				h.Logf = t.Logf
				for _, failure := range drivertest.Check(h) {
					t.Error(failure)
				}
			})
		})
	}
}
