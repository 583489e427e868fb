package mysqladvisory

import (
	"context"
	"encoding/json"
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
	switch {
	case r.Shared:
		return fmt.Errorf("shared holds: GET_LOCK has none: %w", errors.ErrUnsupported)
	case r.Replaces != "":
		return fmt.Errorf("%w: a hold that ends with its connection cannot be handed to another process", errors.ErrUnsupported)
	}
	return nil
}

// enterHeld begins an operation on a token, as holds.enter does. It returns an error if the token
// has no live hold.
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

// undo is called after an error, and releases a lock that the session may have. It returns the
// error that it was given.
func (s *Store) undo(c *conn, key string, cause error) error {
	if _, err := c.queryOne(unlock(key)); err != nil {
		c.loseConn(err)
	}
	return cause
}

// settle makes sure that the session of h is gone. The connection of h has ended, but until the
// session is gone, the session may have the lock of h. settle kills the session that has the mark
// of that connection. The number of the session would not be enough, because a newer session may
// have got the same number.
func (s *Store) settle(h *hold) error {
	c, err := s.pool.anyConn()
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
	}
	for began, pause := time.Now(), time.Millisecond; time.Since(began) < time.Second; pause *= 2 {
		r, err := c.queryOne(owner(h.c.mark))
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUncertain, failure(err))
		}
		if !r[0].Valid {
			h.state, h.c = none, nil
			return nil
		}
		_, _ = c.exec(kill(r[0].String)) // the session may have ended meanwhile
		select {
		case <-time.After(pause):
		case <-s.calls.Closing.Done():
			return driver.ErrClosed
		}
	}
	return fmt.Errorf("%w: the session of a connection that ended may have the lock", driver.ErrUncertain)
}

// mint returns a new fence for a lock that the session has.
func (s *Store) mint(c *conn, l *layout, key string, r *driver.Request) (uint64, error) {
	holder, err := json.Marshal(r.Holder)
	if err != nil {
		return 0, err
	}
	statement := l.sql.mint(key, r.FenceAbove, r.Name, c.mark, string(holder))
	fence, err := c.exec(statement)
	for range 3 { // after a deadlock, the server has undone the statement, and it can be sent again
		if !hasNumber(err, deadlock) {
			break
		}
		fence, err = c.exec(statement)
	}
	if hasNumber(err, noTable) { // the server lost its data
		if err = makeTable(c, l.keys.database); err == nil {
			fence, err = c.exec(statement)
		}
	}
	switch {
	case err != nil:
		return 0, err
	case fence == 0:
		return 0, driver.ErrFencesUsedUp
	}
	return uint64(fence), nil
}

// letGo releases the lock of h.
func (s *Store) letGo(h *hold) (driver.Outcome, error) {
	c := h.c
	r, err := c.queryOne(unlock(h.key))
	switch {
	case err == nil && r.isOne(0):
		if h.state == reserved {
			c.loseConn(errUnclaimed) // the server would soon end the session as idle
		}
		s.clear(h)
		return driver.Released, nil
	case err == nil:
		c.loseConn(errors.New("the session did not have the lock")) // nobody knows which other locks the session has
		s.clear(h)
		return driver.Gone, nil
	}
	c.loseConn(err)
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

var errUnclaimed = errors.New("a reservation was not claimed")

// clear is called when h no longer has its lock. It wakes the waiters of this process that want the
// lock.
func (s *Store) clear(h *hold) {
	c, back := h.c, h.back
	if c != nil {
		c.load.Add(-1)
	}
	h.back = nil
	s.holds.clear(h)
	if back != nil {
		back()
	}
	s.pool.wake(h.key)
}

// claim turns a reservation into a hold. From then on, the session may be idle for longer.
func (s *Store) claim(h *hold) error {
	h.timer.Stop()
	if _, err := h.c.exec(setTimeout(s.cfg.sessionTimeout)); err != nil {
		h.c.loseConn(err)
		return driver.ErrLost
	}
	s.holds.change(func() { h.state = held })
	return nil
}
