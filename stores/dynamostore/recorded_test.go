package dynamostore_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/replay"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/stores/dynamostore"
)

// The store understands what the service answered when the recording was made.
func TestRecorded(t *testing.T) {
	replay.Run(t, replay.Test{
		File: "testdata/dynamodb.json", Place: "dynamodb://padlock-test/locks/?region=us-east-1", StandIn: fakes.NewDynamoDB("padlock-test"),
		Open: func(ctx context.Context, place *url.URL, transport http.RoundTripper) (driver.Store, error) {
			q := place.Query()
			return dynamostore.Open(ctx, dynamostore.Config{
				Table: place.Host, Prefix: place.Path[1:], Region: q.Get("region"), Endpoint: q.Get("endpoint"), Transport: transport, Credentials: key,
			})
		},
	})
}
