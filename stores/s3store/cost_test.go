package s3store_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The table of the page says what the service counts.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		one, _ := s.open(t)
		two, _ := s.open(t)
		overhttptest.CheckCosts(t, "../../docs/stores/s3.md", []string{"GET", "PUT"}, s.Counts, [2]driver.Store{one, two})
	})
}
