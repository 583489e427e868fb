package dynamostore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// The table of the page says what the service counts, and its policy allows that and nothing else.
func TestCost(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *fakes.DynamoDB, s *overhttptest.Service) {
		one, _ := open(t, s)
		two, _ := open(t, s)
		overhttptest.CheckCosts(t, "../../docs/stores/dynamodb.md", []string{"GetItem", "PutItem"}, s.Counts, [2]driver.Store{one, two})
		page, err := os.ReadFile("../../docs/stores/dynamodb.md")
		allowed := `"Action": ["dynamodb:GetItem", "dynamodb:PutItem"],`
		if err != nil || !strings.Contains(string(page), allowed) || len(s.Counts()) != 2 {
			t.Errorf("%v; the service counts %v, and the policy should have %s", err, s.Counts(), allowed)
		}
	})
}
