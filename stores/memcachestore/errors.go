package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// failure returns the error that callers see. The argument couldChange is true if the request could
// change a lock. If err is a context error but ctx has not ended, a time limit of the store has
// passed. The result must not look as if ctx had ended.
func failure(ctx context.Context, err error, couldChange bool) error {
	_, unsent := storekit.IsNoReply(err)
	harmless := unsent || !couldChange
	switch {
	case errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnavailable):
		return err
	case ctx.Err() != nil && !harmless:
		return errors.Join(ctx.Err(), driver.ErrUncertain)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return storekit.Failure(&storekit.NoReply{Err: fmt.Errorf("memcached: %w", err), Unsent: harmless})
}

var errOldServer = fmt.Errorf("%w: the server does not know memcached's meta commands; padlock needs memcached 1.6 or newer, without a proxy that rewrites requests", driver.ErrUnavailable)

// refusal returns the error for a reply that no request expects, such as SERVER_ERROR.
func refusal(r reply) error {
	switch {
	case r.word == "ERROR":
		return errOldServer
	case strings.HasPrefix(r.word, "-"), strings.HasPrefix(r.word, "HTTP/"): // Redis, and servers of HTTP
		return fmt.Errorf("%w: the server at this address is not memcached; it replies %q", driver.ErrUnavailable, r.text)
	}
	return fmt.Errorf("%w: memcached replies %q", driver.ErrUnavailable, r.text)
}
