package advisory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// ConnectLimit is the longest time that connecting may take.
const ConnectLimit = 4 * time.Second

// Connect makes a connection for Dialect.Connect, within ConnectLimit. The function check decides
// whether the connection may be used for locks. No lock has been asked for, so no error is
// ErrUncertain.
func Connect[C Session](ctx context.Context, open func(context.Context) (C, error), check func(context.Context, C) error) (C, error) {
	var none C
	ctx, cancel := context.WithTimeout(ctx, ConnectLimit)
	defer cancel()
	c, err := open(ctx)
	if err == nil {
		err = Within(ctx, c, func() error { return check(ctx, c) })
	}
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrInvalid):
		return none, err
	}
	return none, fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
}

// Within calls f, which runs statements on a new connection. If ctx ends meanwhile, the connection
// ends. After an error the connection is closed.
func Within(ctx context.Context, s Session, f func() error) error {
	stop := context.AfterFunc(ctx, func() {
		s.Lose(context.Cause(ctx))
		s.Close()
	})
	err := f()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Close()
	}
	return err
}
