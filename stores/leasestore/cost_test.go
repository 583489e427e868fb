package leasestore_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The table of the page says what the API server counts.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.Kubernetes, s *overhttptest.Service) {
		one, _ := open(t, s, false)
		two, _ := open(t, s, false)
		overhttptest.CheckCosts(t, "../../docs/stores/kubernetes.md", []string{"read", "write", "watch"}, s.Counts, [2]driver.Store{one, two})
	})
}
