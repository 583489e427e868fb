package pgstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	err := cmp.Or(driver.CheckHold(name, token, &s.promises), driver.CheckKeep("cool-down", keep, &s.promises))
	if err != nil {
		return driver.Gone, err
	}
	return do(ctx, s, func() (driver.Outcome, error) {
		h, err := s.holds.enter(ctx, name, token)
		if err != nil {
			return driver.Gone, err
		}
		defer s.holds.leave(h)
		switch {
		case h.state == none:
			return driver.Gone, s.reach()
		case h.state == doubt:
			return driver.Gone, s.settle(h)
		case !h.c.alive():
			s.clear(h)
			return driver.Gone, nil
		}
		return s.letGo(h)
	})
}

// reach asks whether the server is there.
func (s *Store) reach() error {
	c, err := s.pool.any()
	if err == nil {
		_, err = c.exec(&ping)
	}
	return failure(err)
}

// letGo gives the lock of h back.
func (s *Store) letGo(h *hold) (driver.Outcome, error) {
	if h.intent {
		if err := s.withdraw(h); err != nil && !h.c.alive() {
			s.clear(h)
			return driver.Gone, failure(err)
		}
	}
	c := h.c
	rows, err := c.exec(&unlock[index(h.shared)], number(h.key))
	switch {
	case err == nil && string(rows[0][0]) == "t":
		s.clear(h)
		return driver.Released, nil
	case err == nil:
		err = errors.New("the session did not have the lock")
		c.lose(err) // what else it has cannot be known
		s.clear(h)
		return driver.Gone, nil
	case c.alive():
		c.lose(err)
	}
	s.clear(h)
	return driver.Gone, failure(&connError{err: err})
}

// clear forgets the hold of h.
func (s *Store) clear(h *hold) {
	c, back := h.c, h.back
	if c != nil {
		s.pool.drop(c, h.key)
	}
	h.back = nil
	s.holds.clear(h)
	if back != nil {
		back()
	}
}
