package memstore

import (
	"context"
	"fmt"
	"net/url"

	"github.com/padlock-go/padlock/driver"
)

// Scheme describes this store for package open, which opens a store by its URL. The URL of this
// store is "memory:". Each Open returns a new store without any locks.
func Scheme() driver.Scheme {
	return driver.Scheme{
		Names:      []string{"memory"},
		Help:       "the memory of one process",
		Example:    "memory:",
		InProcess:  true,
		Guarantees: func() driver.Guarantees { return guarantees },
		Open:       openURL,
		Instead:    symfonyDSN,
	}
}

func openURL(_ context.Context, u *url.URL, _ driver.Opening) (driver.Store, error) {
	if u.String() != "memory:" {
		return nil, fmt.Errorf("%w: write memory: and nothing more", driver.ErrInvalid)
	}
	return New(), nil
}

// symfonyDSN returns the URL to use instead of the DSN of PHP's Symfony Lock, or "" if the text is
// no such DSN.
func symfonyDSN(text string) string {
	if text == "in-memory" {
		return "memory:"
	}
	return ""
}
