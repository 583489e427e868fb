package pgadvisory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// check rejects requests that are invalid or that the store cannot carry out.
func (s *Store) check(r *driver.Request) error {
	if err := r.Validate(&s.promises); err != nil {
		return err
	}
	if r.Replaces != "" {
		return fmt.Errorf("%w: a hold that ends with its connection cannot be handed to another process", errors.ErrUnsupported)
	}
	return s.cfg.keys.check(r.Name)
}

// checkName rejects a name that no lock can have.
func (s *Store) checkName(name string) error {
	return cmp.Or(driver.CheckName(name, &s.promises), s.cfg.keys.check(name))
}

// enterHeld is like holds.enter, but the token must have a live hold.
func (s *Store) enterHeld(ctx context.Context, name, token string) (*hold, error) {
	h, err := s.holds.enter(ctx, name, token)
	if err != nil {
		return nil, err
	}
	switch {
	case h.state == unsure:
		err = driver.ErrUncertain
	case h.state != held || !h.c.alive():
		err = driver.ErrLost
	}
	if err != nil {
		s.holds.leave(h)
		return nil, err
	}
	return h, nil
}

// verify sends the server a ping on the connection of h. If the connection ends meanwhile, the hold
// is lost.
func (s *Store) verify(h *hold) error {
	if _, err := h.c.exec(&ping); err != nil {
		if !h.c.alive() {
			return driver.ErrLost
		}
		return failure(err)
	}
	return nil
}

// undo is called after an error, and releases a lock that the session may have. If that fails, it
// ends the connection. It returns the error that it was given.
func (s *Store) undo(c *conn, key int64, shared int, why error) error {
	if _, err := c.exec(&unlock[shared], number(key)); err != nil {
		c.lose(err)
	}
	return why
}

func index(shared bool) int {
	if shared {
		return 1
	}
	return 0
}

// settle makes sure that the session of h no longer has the lock. The connection of h has ended,
// but its session may still exist.
func (s *Store) settle(h *hold) error {
	c, err := s.pool.anyConn()
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
	}
	pid, began := number(int64(h.c.pid)), time.Now()
	for pause := time.Millisecond; time.Since(began) < time.Second; pause *= 2 {
		var rows [][][]byte
		if h.c.pooled {
			rows, err = c.exec(&stillLocks, number(h.key), pid)
		} else if _, err = c.exec(&endBackend, pid, []byte(h.c.start)); err == nil {
			rows, err = c.exec(&backendLives, pid, []byte(h.c.start))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUncertain, failure(err))
		}
		if parse(rows[0][0]) == 0 {
			h.state, h.c = none, nil
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%w: the session of a connection that ended may have the lock", driver.ErrUncertain)
}

// mint returns a new fence for a lock that the session has.
func (s *Store) mint(c *conn, key int64, shared bool, r *driver.Request) (uint64, error) {
	rows, err := c.exec(&s.sql.mint[index(shared)], number(key), number(int64(r.FenceAbove)), bytea(r.Name))
	switch {
	case err != nil:
		return 0, failure(err)
	case len(rows) == 0:
		return 0, driver.ErrFencesUsedUp
	}
	return parse(rows[0][0]), nil
}

// isMine reports whether the session has the lock exclusively.
func isMine(c *conn, key int64) (bool, error) {
	rows, err := c.exec(&countExclusive, number(key))
	return err == nil && parse(rows[0][0]) > 0, err
}

// withdraw releases the lock that stands for the intent of h.
func (s *Store) withdraw(h *hold) error {
	h.timer.Stop()
	rows, err := h.c.exec(&unlock[0], number(s.cfg.keys.intent(h.name)))
	if err == nil && string(rows[0][0]) != "t" {
		h.c.lose(fmt.Errorf("the session did not have the lock of an intent"))
	}
	s.holds.change(func() { h.intent = false })
	return failure(err)
}

// letGo releases the lock of h.
func (s *Store) letGo(h *hold) (driver.Outcome, error) {
	if h.intent {
		if err := s.withdraw(h); err != nil && !h.c.alive() {
			s.forfeit(h)
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
		c.lose(err) // the store does not know which other locks the session has
		s.clear(h)
		return driver.Gone, nil
	case c.alive():
		c.lose(err)
	}
	s.forfeit(h)
	return driver.Gone, failure(&connError{err: err})
}

// forfeit is called instead of the method clear if the connection of h ended while the lock was
// being released. The session may still exist and have the lock. So h gets the state "unsure", and
// its next Release makes sure that the session is gone.
func (s *Store) forfeit(h *hold) {
	c := h.c
	s.clear(h)
	s.holds.change(func() { h.state, h.c = unsure, c })
}

// clear records that h no longer has the lock, and frees its place in the pool.
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

// claim turns a reservation into a hold. From then on, the session may be idle for longer.
func (s *Store) claim(h *hold) error {
	h.timer.Stop()
	if _, err := h.c.exec(&claimed, []byte(ms(s.cfg.sessionTimeout()))); err != nil {
		h.c.lose(err)
		return driver.ErrLost
	}
	s.holds.change(func() { h.state = held })
	return nil
}
