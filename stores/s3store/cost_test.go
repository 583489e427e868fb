package s3store_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The tables of the pages say what the service counts.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, s *service) {
		one, _ := s.open(t)
		two, _ := s.open(t)
		page := "../../docs/stores/s3.md"
		if s.kind == s3store.ServiceAzure {
			page = "../../docs/stores/azure.md"
		}
		overhttptest.CheckCosts(t, page, []string{"GET", "PUT"}, s.requests, [2]driver.Store{one, two})
	})
}
