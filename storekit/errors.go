package storekit

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Invalidf returns an error that is driver.ErrInvalid. Its text says what is wrong.
func Invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}

// A NoReply is the error of a request that got no reply. If the server did reply, and refused the
// request, the error is not a NoReply.
type NoReply struct {
	Err error
	// Unsent means that the server has certainly not carried out the request. If in doubt, it is
	// false.
	Unsent bool
}

// Error returns the text of Err.
func (e *NoReply) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NoReply) Unwrap() error { return e.Err }

// IsNoReply reports whether err means that a request got no reply, and whether the server has
// certainly not carried out that request.
func IsNoReply(err error) (yes, unsent bool) {
	var n *NoReply
	if !errors.As(err, &n) {
		return false, false
	}
	return true, n.Unsent
}

// Failure turns the error of a request into the error that the caller of the store gets:
//
//	nil                                                  nil
//	ErrClosed, ErrInvalid, ErrUncertain, ErrUnavailable  the same error
//	a NoReply, perhaps carried out                       ErrUncertain
//	a NoReply that is Unsent                             ErrUnavailable
//	any other: the server has refused                    ErrUnavailable
//
// A refused request must have changed nothing. A context error inside err comes from a time limit
// of the store. Failure keeps only its text, so that it does not look as if the caller's context
// had ended.
func Failure(err error) error {
	switch noReply, unsent := IsNoReply(err); {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUncertain), errors.Is(err, driver.ErrUnavailable):
		return err
	case noReply && !unsent:
		return fmt.Errorf("%w: %s", driver.ErrUncertain, err)
	case noReply, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
