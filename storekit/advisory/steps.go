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
	case r.Replaces.Text() != "":
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

// later runs f, which a timer has started, as an operation on a hold.
func (s *Store[C]) later(name, token string, f func(h *hold[C])) {
	if s.calls.Begin(s.calls.Closing) != nil {
		return
	}
	defer s.calls.Work.Done()
	h, err := s.holds.enter(s.calls.Closing, name, token)
	if err != nil {
		return
	}
	defer s.holds.leave(h)
	f(h)
}

// heldBy returns the error that names the holders of a lock.
func (s *Store[C]) heldBy(c *conn[C], l Lock) error {
	holds, _, _ := s.dialect.Holders(c.s, l) // the error is right without the holders
	return &driver.HeldError{Waiters: -1, Holds: holds}
}

// giveUp is called after the server has refused a try. The session may have got the lock before
// that, so giveUp releases it. If the session has other holds of the lock, nobody knows whether it
// has the lock once more, so giveUp ends the connection.
func (s *Store[C]) giveUp(c *conn[C], l Lock, shared bool, refusal error) {
	if s.pool.seal(c, l.Key) {
		_, refusal = s.dialect.Unlock(c.s, l, shared)
	}
	if refusal != nil {
		c.s.Lose(refusal)
	}
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
			return fmt.Errorf("%w: %w", driver.ErrUncertain, s.failure(err))
		case gone:
			h.state, h.c = none, nil
			return nil
		case !storekit.Sleep(s.calls.Closing, pause):
			return driver.ErrClosed
		}
	}
	return fmt.Errorf("%w: the session of a connection that ended may have the lock", driver.ErrUncertain)
}

// withdraw gives up the intent of h. If the server refuses that, withdraw ends the connection,
// because the intent would keep new readers out.
func (s *Store[C]) withdraw(h *hold[C]) error {
	h.timer.Stop()
	had, err := s.sharer.Withdraw(h.c.s, h.lock())
	switch {
	case err != nil:
		h.c.s.Lose(err)
	case !had:
		h.c.s.Lose(errors.New("the session did not have the lock of an intent"))
	}
	s.holds.change(func() { h.intent = false })
	return err
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
	return s.failure(err)
}
