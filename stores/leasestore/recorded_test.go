package leasestore_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/replay"
	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/stores/leasestore"
)

// The store understands what the service answered when the recording was made.
func TestRecorded(t *testing.T) {
	replay.Run(t, replay.Test{
		File: "testdata/kubernetes.json", Place: "kubernetes://shop/locks/?endpoint=http://127.0.0.1:8001", StandIn: fakes.NewKubernetes(),
		Open: func(ctx context.Context, place *url.URL, transport http.RoundTripper) (driver.Store, error) {
			return leasestore.Open(ctx, leasestore.Config{
				Namespace: place.Host, Prefix: place.Path[1:], Endpoint: place.Query().Get("endpoint"), Transport: transport,
			})
		},
	})
}
