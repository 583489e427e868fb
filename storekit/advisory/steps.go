package advisory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// check rejects requests that are invalid or that the store cannot carry out.
func (s *Store[C]) check(r *driver.Request) error {
	if err := r.Validate(&s.cfg.Guarantees); err != nil {
		return err
	}
	switch {
	case r.Shared && s.sharer == nil:
		return fmt.Errorf("shared holds: the locks of this server have none: %w", errors.ErrUnsupported)
	case r.Replaces != "":
		return fmt.Errorf("%w: a hold that ends with its connection cannot be handed to another process", errors.ErrUnsupported)
	}
	return CheckName(s, r.Name)
}

// enterHeld is like holds.enter, but the token must have a live hold.
func (s *Store[C]) enterHeld(ctx context.Context, name, token string) (*hold[C], error) {
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

// heldBy returns the error that names the holders of a lock.
func (s *Store[C]) heldBy(c *conn[C], l Lock) error {
	holds, _, _ := s.dialect.Holders(c.s, l) // the error is right without the holders
	return &driver.HeldError{Waiters: -1, Holds: holds}
}

// undo is called after an error, and releases a lock that the session may have. If that fails, it
// ends the connection. It returns the error that it was given.
func (s *Store[C]) undo(c *conn[C], l Lock, shared bool, why error) error {
	if _, err := s.dialect.Unlock(c.s, l, shared); err != nil {
		c.s.Lose(err)
	}
	return why
}

// settle makes sure that the session of h no longer has the lock. The connection of h has ended,
// but its session may still exist.
func (s *Store[C]) settle(h *hold[C]) error {
	c, err := s.pool.anyConn()
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
	}
	for pause, began := time.Millisecond, time.Now(); time.Since(began) < time.Second; pause *= 2 {
		gone, err := s.dialect.Settle(c, h.c.s, h.lock())
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", driver.ErrUncertain, storekit.Failure(err))
		case gone:
			h.state, h.c = none, nil
			return nil
		case !storekit.Sleep(s.calls.Closing, pause):
			return driver.ErrClosed
		}
	}
	return fmt.Errorf("%w: the session of a connection that ended may have the lock", driver.ErrUncertain)
}

// withdraw gives up the intent of h.
func (s *Store[C]) withdraw(h *hold[C]) error {
	h.timer.Stop()
	err := s.sharer.Withdraw(h.c.s, h.lock())
	s.holds.change(func() { h.intent = false })
	return storekit.Failure(err)
}

// letGo releases the lock of h.
func (s *Store[C]) letGo(h *hold[C]) (driver.Outcome, error) {
	if h.intent {
		if err := s.withdraw(h); err != nil && !h.c.alive() {
			s.forfeit(h)
			return driver.Gone, err
		}
	}
	c := h.c
	had, err := s.dialect.Unlock(c.s, h.lock(), h.shared)
	switch {
	case err != nil:
		c.s.Lose(err)
		s.forfeit(h)
		return driver.Gone, storekit.Failure(&storekit.NoReply{Err: err})
	case !had:
		c.s.Lose(errors.New("the session did not have the lock")) // nobody knows which other locks the session has
		s.clear(h)
		return driver.Gone, nil
	}
	if h.state == reserved {
		c.s.Lose(errUnclaimed) // the server would soon end the session as idle
	}
	s.clear(h)
	return driver.Released, nil
}

var errUnclaimed = errors.New("a reservation was not claimed")

// forfeit is called instead of the method clear if the connection of h ended while the lock was
// being released. The session may still exist and have the lock. So h gets the state "unsure", and
// its next Release makes sure that the session is gone.
func (s *Store[C]) forfeit(h *hold[C]) {
	c := h.c
	s.clear(h)
	s.holds.change(func() { h.state, h.c = unsure, c })
}

// clear records that h no longer has the lock, and frees its place in the pool. It wakes the
// waiters of this process that want the lock.
func (s *Store[C]) clear(h *hold[C]) {
	c, back := h.c, h.back
	if c != nil {
		s.pool.drop(c, h.key)
	}
	h.back = nil
	s.holds.clear(h)
	if back != nil {
		back()
	}
	s.pool.wake(h.key)
}

// claim turns a reservation into a hold. From then on, the session may be idle for longer.
func (s *Store[C]) claim(h *hold[C]) error {
	h.timer.Stop()
	if err := s.dialect.Claim(h.c.s); err != nil {
		h.c.s.Lose(err)
		return driver.ErrLost
	}
	s.holds.change(func() { h.state = held })
	return nil
}

// verify asks the server whether the session of h has the lock.
func (s *Store[C]) verify(h *hold[C]) error {
	err := s.dialect.Verify(h.c.s, h.lock())
	if err != nil && !h.c.alive() {
		return driver.ErrLost
	}
	return storekit.Failure(err)
}
