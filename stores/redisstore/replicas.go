package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// replicated runs a script, and waits until enough replicas have what the script has written. WAIT
// counts the writes of its own connection. So the script and WAIT use one connection, and no other
// request uses it during that time. The client may have to make this connection, and ignores ctx
// meanwhile. So replicated works in its own goroutine.
//
// If too few replicas confirm, the caller gets an error, but the primary keeps what was written.
// The lock is not released here: the caller repeats the request or releases the token. If a release
// were sent here, it could reach the server after the repeated request, and end the hold that the
// repeated request has just got.
func (s *Store) replicated(ctx context.Context, c *connected, sc *script, name string, args []string) (driver.Grant, error) {
	type result struct {
		g   driver.Grant
		err error
	}
	done := make(chan result, 1)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if !s.calls.Go(func() {
		g, err := s.onReplicas(ctx, c, sc, name, args)
		done <- result{g, err}
	}) {
		return driver.Grant{}, driver.ErrClosed
	}
	select {
	case r := <-done:
		return r.g, r.err
	case <-ctx.Done():
		return driver.Grant{}, fmt.Errorf("%w; %w", ctx.Err(), driver.ErrUncertain)
	}
}

// onReplicas does the work of replicated. After the end of ctx it sends nothing.
func (s *Store) onReplicas(ctx context.Context, c *connected, sc *script, name string, args []string) (driver.Grant, error) {
	patience := s.config.patience
	if patience == 0 {
		patience = time.Second
	}
	var g driver.Grant
	err := c.Dedicated(func(d rueidis.DedicatedClient) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a, err := s.readAnswer(ctx, s.send(ctx, d, c.setting, sc, name, args))
		if err == nil {
			g, err = s.grant(&a)
		}
		if err != nil {
			return err
		}
		n, err := d.Do(ctx, d.B().Wait().Numreplicas(int64(s.config.replicas)).Timeout(patience.Milliseconds()).Build()).AsInt64()
		if err != nil {
			return s.failure(ctx, err)
		}
		if n < int64(s.config.replicas) {
			return fmt.Errorf("%w; %w", unavailable("%d of %d replicas have the lock", n, s.config.replicas), driver.ErrUncertain)
		}
		return nil
	})
	if err == nil {
		return g, nil
	}
	return driver.Grant{}, err
}
