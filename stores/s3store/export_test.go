package s3store

import (
	"context"
	"net/http"
	"net/url"

	"github.com/padlock-go/padlock/storekit/register"
)

// Through opens the store of a URL lazily, and sends its requests through transport.
func Through(ctx context.Context, u *url.URL, transport http.RoundTripper) (*register.Store, error) {
	k, service := &kind, ServiceS3
	if u.Scheme == azure.Name {
		k, service = &azure, ServiceAzure
	}
	t, err := k.Read(u)
	if err != nil {
		return nil, err
	}
	c, err := config(t)
	if err != nil {
		return nil, err
	}
	c.Service, c.Transport = service, transport
	return Open(ctx, c, register.Lazy())
}
