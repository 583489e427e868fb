package memstore

import (
	"context"
	"fmt"

	"github.com/padlock-go/padlock/driver"
)

// Pass implements fast.Passer.
func (s *Store) Pass(ctx context.Context, token string, next driver.Request) (out driver.Outcome, g driver.Grant, err error) {
	if err := driver.CheckHold(next.Name, token, &s.guarantees); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if err := next.Validate(&s.guarantees); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if next.Shared || next.Replaces.Text() != "" || next.Token.Text() == token {
		return driver.OutcomeGone, driver.Grant{}, fmt.Errorf("%w: request: it is shared, replaces a hold, or has the token that is given back", driver.ErrInvalid)
	}
	if err := s.enter(ctx); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	defer s.unlock()
	now := s.now()
	e := s.entry(next.Name, now)
	if e.Live(next.Token.Text(), now.Now) != nil {
		g, err := s.take(e, &next, now)
		return driver.OutcomeReleased, g, err
	}
	h := e.Live(token, now.Now)
	follows := h != nil && !h.Shared
	out = s.release(e, token, 0, now)
	if follows && !e.blocked(&next, now) {
		if g, err := s.take(e, &next, now); err == nil {
			return out, g, nil
		}
	}
	s.advance(e, now)
	return out, driver.Grant{}, nil
}
