package advisory

import (
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Release implements driver.Store.
func (s *Store[C]) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.cfg.Guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	return storekit.Do(ctx, &s.calls, func() (driver.Outcome, error) {
		h, err := s.holds.enter(ctx, name, token)
		if err != nil {
			return driver.OutcomeGone, err
		}
		defer s.holds.leave(h)
		switch {
		case h.state == none:
			return driver.OutcomeGone, s.reachServer()
		case h.state == unsure:
			return driver.OutcomeGone, s.settle(h)
		case !h.c.alive():
			s.clear(h)
			return driver.OutcomeGone, nil
		}
		return s.letGo(h)
	})
}

// reachServer checks whether the server can be reached.
func (s *Store[C]) reachServer() error {
	c, err := s.pool.anyConn()
	if err == nil {
		err = s.dialect.Verify(c, Lock{})
	}
	return s.failure(err)
}

// letGo releases the lock of h. If the server refuses that, letGo ends the connection. If the
// connection has ended, the session may still exist and have the lock. So h gets the state
// "unsure", and its next Release makes sure that the session is gone.
func (s *Store[C]) letGo(h *hold[C]) (driver.Outcome, error) {
	c, out, had := h.c, driver.OutcomeReleased, true
	var err error
	if h.intent {
		err = s.withdraw(h)
	}
	if err == nil {
		had, err = s.dialect.Unlock(c.s, h.lock(), h.shared)
	}
	switch {
	case err != nil:
		c.s.Lose(err)
	case !had:
		c.s.Lose(errors.New("the session did not have the lock")) // nobody knows which other locks the session has
		out = driver.OutcomeGone
	case h.state == reserved:
		c.s.Lose(errUnclaimed) // the server would soon end the session as idle
	}
	s.clear(h)
	if err != nil {
		s.holds.change(func() { h.state, h.c = unsure, c })
		return driver.OutcomeGone, s.failure(&storekit.NoReply{Err: err})
	}
	return out, nil
}

var errUnclaimed = errors.New("a reservation was not claimed")

// clear records that h no longer has the lock, and frees its entry in the pool.
func (s *Store[C]) clear(h *hold[C]) {
	back := h.back
	if h.c != nil {
		s.pool.drop(h.c, h.key)
	}
	h.back = nil
	s.holds.clear(h)
	if back != nil {
		back()
	}
}
