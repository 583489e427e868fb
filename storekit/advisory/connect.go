package advisory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// connectLimit is the longest time that connecting may take.
const connectLimit = 4 * time.Second

// connect makes a connection that may be used for locks. No lock has been asked for, so no error is
// ErrUncertain.
func (s *Store[C]) connect(ctx context.Context) (C, error) {
	var none C
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	c, err := s.open(ctx)
	if err == nil {
		err = within(ctx, c, func() error { return s.checkProxy(ctx, c) })
	}
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrInvalid):
		return none, err
	}
	return none, fmt.Errorf("%w: %s", driver.ErrUnavailable, err)
}

func (s *Store[C]) open(ctx context.Context) (C, error) {
	c, err := s.dialect.Connect(ctx)
	if err == nil {
		err = within(ctx, c, func() error { return s.dialect.SetUp(c) })
	}
	return c, err
}

// checkProxy returns an error for a proxy or a pooler that lets two connections share one session
// of the server. So it compares the session of c with those of the other connections of the store.
//
// A busy proxy may give two connections different sessions, and then checkProxy finds nothing. So
// it makes some more connections, one after the other, if the dialect wants that.
func (s *Store[C]) checkProxy(ctx context.Context, c C) error {
	others := s.pool.live()
	for _, other := range others {
		if err := s.dialect.Conflict(c, other); err != nil {
			other.Lose(err)
			return err
		}
	}
	for range s.dialect.Probes(c, len(others) == 0) {
		if err := s.probe(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// probe compares the session of c with that of one more connection. A proxy may give each statement
// another session, so c is verified before that and after it.
func (s *Store[C]) probe(ctx context.Context, c C) error {
	if err := s.dialect.Verify(c, Lock{}); err != nil {
		return err
	}
	second, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := s.dialect.Conflict(second, c); err != nil {
		return err
	}
	return s.dialect.Verify(c, Lock{})
}

// within calls f, which runs statements on a new connection. If ctx ends meanwhile, the connection
// ends. After an error the connection is closed.
func within(ctx context.Context, s Session, f func() error) error {
	stop := context.AfterFunc(ctx, func() { s.Lose(context.Cause(ctx)) })
	err := f()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Close()
	}
	return err
}
