package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}

// requestError is the error of a request that got no reply.
type requestError struct {
	err    error
	unsent bool // the server did not get the request
}

func (e *requestError) Error() string { return e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

func unsent(err error) error { return &requestError{err, true} }

// failure returns the error that callers see. The argument couldChange is true if the request could
// change a lock. If err is a context error but ctx has not ended, a time limit of the store has
// passed. The result must not look as if ctx had ended.
func failure(ctx context.Context, err error, couldChange bool) error {
	var r *requestError
	sent := !errors.As(err, &r) || !r.unsent
	switch {
	case errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnavailable):
		return err
	case ctx.Err() != nil && sent && couldChange:
		return errors.Join(ctx.Err(), driver.ErrUncertain)
	case ctx.Err() != nil:
		return ctx.Err()
	case sent && couldChange:
		return fmt.Errorf("%w: memcached: %s", driver.ErrUncertain, err)
	}
	return fmt.Errorf("%w: memcached: %s", driver.ErrUnavailable, err)
}

var errOldServer = fmt.Errorf("%w: the server does not know memcached's meta commands; padlock needs memcached 1.6 or newer, without a proxy that rewrites requests", driver.ErrUnavailable)

// refusal returns the error for a reply that no request expects, such as SERVER_ERROR.
func refusal(r reply) error {
	switch {
	case r.word == "ERROR":
		return errOldServer
	case strings.HasPrefix(r.word, "-"), strings.HasPrefix(r.word, "HTTP/"): // Redis, and servers of HTTP
		return fmt.Errorf("%w: the server at this address is not memcached; it replies %q", driver.ErrUnavailable, r.line)
	}
	return fmt.Errorf("%w: memcached replies %q", driver.ErrUnavailable, r.line)
}
