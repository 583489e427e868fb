package overhttptest_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
)

// Stop ends a watch whose client has gone. Otherwise the bubble would end with it.
func TestStopEndsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := overhttptest.Start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		defer service.Stop()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory/watch", nil)
			if err == nil {
				_, err = service.Front().Transport().RoundTrip(request)
			}
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil {
			t.Error("the watch was answered")
		}
	})
}
