package s3store_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/replay"
	"github.com/padlock-go/padlock/stores/s3store"
)

// The store understands what the services answered when the recordings were made.
func TestRecorded(t *testing.T) {
	for scheme, kind := range map[string]s3store.Service{"s3": s3store.ServiceS3, "gs": s3store.ServiceGoogle} {
		t.Run(scheme, func(t *testing.T) {
			s := newService(kind)
			defer s.Stop()
			replay.Run(t, replay.Test{
				File: "testdata/" + scheme + ".json", Place: scheme + "://padlock-test/locks/?region=us-east-1&endpoint=http://localhost", StandIn: s.Handler(),
				Open: func(ctx context.Context, place *url.URL, transport http.RoundTripper) (driver.Store, error) {
					q := place.Query()
					c := s3store.Config{
						Bucket: place.Host, Service: kind, Prefix: place.Path[1:], Region: q.Get("region"), Endpoint: q.Get("endpoint"),
						HostStyle: q.Get("path-style") == "no", Transport: transport,
					}
					if kind == s3store.ServiceGoogle {
						c.Token = token
					} else {
						c.Credentials = key
					}
					return s3store.Open(ctx, c)
				},
			})
		})
	}
}
