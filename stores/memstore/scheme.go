package memstore

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Scheme describes this store for package open, which opens a store by its URL. The URL of this
// store is "memory:", or "memory:?max-ttl=10m" for leases of up to ten minutes. Each Open returns a
// new store without any locks.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:      []string{"memory"},
		Help:       "the memory of one process",
		Example:    "memory:",
		InProcess:  true,
		Guarantees: func() driver.Guarantees { return usual },
		Open:       openURL,
		Instead:    symfonyDSN,
	}
}

func openURL(_ context.Context, u *url.URL, _ storeurl.Opening) (driver.Store, error) {
	query := u.Query()
	limit := query.Get("max-ttl")
	bare := *u
	bare.RawQuery = ""
	if bare.String() != "memory:" || len(query) > 1 || len(query) == 1 && len(query["max-ttl"]) != 1 {
		return nil, fmt.Errorf("%w: write memory: or memory:?max-ttl=10m and nothing more", driver.ErrInvalid)
	}
	if limit == "" && len(query) == 0 {
		return New(), nil
	}
	d, err := time.ParseDuration(limit)
	if err != nil || d < driver.MinTTL || d > driver.MaxTTL {
		return nil, fmt.Errorf("%w: max-ttl: it is %q, allowed are %v to %v", driver.ErrInvalid, limit, driver.MinTTL, driver.MaxTTL)
	}
	return New(MaxTTL(d)), nil
}

// symfonyDSN returns the URL to use instead of the DSN of PHP's Symfony Lock, or "" if the text is
// no such DSN.
func symfonyDSN(text string) string {
	if text == "in-memory" {
		return "memory:"
	}
	return ""
}
