package dynamostore_test

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The table of the page says what the service counts.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		one, _ := open(t, s)
		two, _ := open(t, s)
		overhttptest.CheckCosts(t, "../../docs/stores/dynamodb.md", []string{"GetItem", "PutItem"}, s.Counts, [2]driver.Store{one, two})
	})
}
