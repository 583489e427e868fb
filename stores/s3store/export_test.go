package s3store

import (
	"context"
	"net/http"
	"net/url"

	"github.com/padlock-go/padlock/storekit/register"
)

// Through opens the store of a URL lazily, and sends its requests through transport.
func Through(ctx context.Context, u *url.URL, transport http.RoundTripper) (*register.Store, error) {
	t, err := kind.Read(u)
	if err != nil {
		return nil, err
	}
	c, err := config(t)
	if err != nil {
		return nil, err
	}
	c.Transport = transport
	return Open(ctx, c, register.Lazy())
}
