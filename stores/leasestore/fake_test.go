package leasestore_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/internal/server/fakes"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/stores/leasestore"
)

// inMemory runs a test over a fake, in time that costs nothing.
func inMemory(t *testing.T, test func(t *testing.T, f *fakes.Kubernetes, s *overhttptest.Service)) {
	synctest.Test(t, func(t *testing.T) {
		f := fakes.NewKubernetes()
		s := overhttptest.Start(f)
		s.Kind = func(r *http.Request) string {
			switch {
			case r.URL.Query().Has("watch"):
				return "watch"
			case r.Method == http.MethodPost || r.Method == http.MethodPut:
				return "write"
			}
			return "read"
		}
		defer s.Stop()
		test(t, f, s)
	})
}

func openOn(ctx context.Context, f *overhttptest.Front, server bool) (*register.Store, error) {
	return leasestore.Open(ctx, leasestore.Config{
		Namespace: "shop", Prefix: "locks/", Endpoint: "http://memory", ServerClock: server, Transport: f.Transport(),
	})
}
