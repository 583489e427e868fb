package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// firstConnect waits until the session is connected. It returns early, with an error, if no server
// can be reached.
func (ss *session) firstConnect(ctx context.Context) error {
	down, _ := ss.trouble()
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- ss.waitConnected(stop) }()
	select {
	case err := <-done:
		return err
	case <-down:
		cancel()
		if err := <-done; err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, why := ss.trouble()
		if why == nil {
			why = errors.New("they accept connections and do not answer")
		}
		return fmt.Errorf("%w: no server can be reached: %w", driver.ErrUnavailable, noContext{why})
	}
}

// noContext hides that an error comes from a context. A time limit of the store must not look like
// a time limit of the caller.
type noContext struct{ error }

// waitConnected waits until the session is connected. It returns an error if that takes too long,
// or if the session is lost.
func (ss *session) waitConnected(ctx context.Context) error {
	timer := time.NewTimer(storekit.Patience)
	defer timer.Stop()
	for {
		select {
		case <-ss.online():
			if !ss.alive() {
				return context.Cause(ss.bound)
			}
			return nil
		case <-ss.bound.Done():
			return context.Cause(ss.bound)
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("%w: the servers do not answer", driver.ErrUnavailable)
		}
	}
}

// retryRequest calls request, and calls it again each time the connection was lost during the call.
// A repeated request must do no harm.
func (ss *session) retryRequest(request func() error) error {
	for {
		err := request()
		if !cutOff(err) {
			return err
		}
		if late := ss.waitConnected(context.Background()); late != nil {
			return fmt.Errorf("%w: %w", driver.ErrUncertain, late)
		}
		<-time.After(time.Millisecond) // the client may not have noticed yet that it is cut off
	}
}
