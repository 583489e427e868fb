package zkstore

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// cutOff reports whether err means that the connection was lost, so that it is not known whether
// the request was carried out.
func cutOff(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) ||
		errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved)
}

// failure returns the error that callers see.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrLost) && errors.Is(err, driver.ErrUncertain):
		return fmt.Errorf("%w: %s", driver.ErrUncertain, err)
	case errors.Is(err, driver.ErrUncertain), errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrLost),
		errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrHeld):
		return err
	case cutOff(err):
		return fmt.Errorf("%w: %s", driver.ErrUncertain, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: the nodes belong to another user (ACL): %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
