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

// With Notices, a request ends when its client gives it up, or when its connection is cut.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan bool)
		service := overhttptest.Start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			over <- true
		}))
		defer service.Stop()
		service.Notices = true
		front := service.Front()
		for _, cut := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://memory/watch", nil); err == nil {
					_, _ = front.Transport().RoundTrip(request)
				}
			}()
			synctest.Wait()
			if cut {
				front.Cut()
			} else {
				cancel()
			}
			<-over // never, if the service does not notice: the bubble ends with a deadlock
			cancel()
		}
	})
}
