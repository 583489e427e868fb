package dynamostore_test

import (
	"context"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The store passes the suite, over front ends whose clocks differ by the skew, and whose Date has
// whole seconds.
func TestContract(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fakes.DynamoDB, s *overhttptest.Service) {
		h := s.Harness("PutItem", func(ctx context.Context, front *overhttptest.Front) (driver.Store, error) {
			return openOn(ctx, front)
		}, func() {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			clear(f.Items)
		})
		h.Logf = t.Logf
		h.Full, h.FullSays = s.Full("PutItem", overhttptest.Say(400, failure("ThrottlingException"), false)), "429"
		h.FullRefuses = []string{"extend", "release", "demotion"}
		for _, failure := range drivertest.Check(h) {
			t.Error(failure)
		}
	})
}
