package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Pass implements fast.Passer. The store lacks Passer if it has the option Foreign: Pass would save
// no request.
func (s *Store) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	if s.guarantees.Lacks&driver.AbilityPasser != 0 {
		return driver.OutcomeGone, driver.Grant{}, errors.ErrUnsupported
	}
	if err := errors.Join(driver.CheckToken(token), next.Validate(&s.guarantees)); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if next.Shared || next.Replaces.Text() != "" || next.Token.Text() == token {
		return driver.OutcomeGone, driver.Grant{}, fmt.Errorf("%w: request: only an exclusive hold of its own can follow", driver.ErrInvalid)
	}
	c, err := s.ready(ctx, true)
	if err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if s.fast(&next) {
		if out, g, done, err := s.swap(ctx, c, token, &next); done || err != nil {
			return out, g, err
		}
	}
	// The caller may have repeated a call whose reply was lost. In that case, next.Token has the
	// hold already.
	g, err := s.Extend(ctx, next.Name, next.Token.Text(), next.TTL)
	if err == nil {
		return driver.OutcomeReleased, g, nil
	}
	if !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrExpired) {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	out, err := s.Release(ctx, next.Name, token, 0)
	return out, driver.Grant{}, err
}

// swap ends the hold of a token and hands the name over: to the first waiter in the queue or, if
// the queue is empty, to the caller that the argument next describes. The result done reports
// whether the hold was ended.
func (s *Store) swap(ctx context.Context, c *connected, token string, next *driver.Request) (out driver.Outcome, g driver.Grant, done bool, err error) {
	l := s.keys.lock(next.Name)
	args := append(append(make([]string, 0, 8), counted(token)), c.endings...)
	n, err := s.scripts.swap.do(ctx, c, l.keys[:], s.successor(args, next)).ToInt64()
	switch {
	case err != nil:
		return driver.OutcomeGone, g, false, s.failure(ctx, err)
	case n == firstGone:
		s.handOver(ctx, c, next.Name)
	case n > firstGone:
		g, err = s.confirmed(ctx, next, driver.Grant{Fence: s.callerFence(n), TTL: next.TTL}, nil)
	}
	return driver.OutcomeReleased, g, n > 0, err
}
