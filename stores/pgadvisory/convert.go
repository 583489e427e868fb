package pgadvisory

import (
	"context"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// Convert implements driver.Converter.
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	return calls.Do(ctx, &s.calls, func() (driver.Grant, error) {
		h, err := s.enterHeld(ctx, r.Name, r.Token)
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		switch {
		case h.shared && !r.Shared:
			err = s.promote(h, &r)
		case !h.shared && r.Shared:
			err = s.demote(h)
		case h.intent:
			err = s.withdraw(h)
		default:
			err = s.verify(h)
		}
		if err != nil {
			return driver.Grant{}, s.orLost(h, err)
		}
		return h.grant(), nil
	})
}

// orLost returns ErrLost if the connection of h has ended, and err otherwise.
func (s *Store) orLost(h *hold, err error) error {
	if !h.c.alive() {
		return driver.ErrLost
	}
	return err
}

// promote tries once to turn the shared hold h into an exclusive one. First it locks the intent,
// which keeps new readers out. Then it takes the exclusive lock, while h still has the shared one.
func (s *Store) promote(h *hold, r *driver.Request) error {
	if s.holds.promoting(h) {
		return driver.ErrPromotionConflict
	}
	if err := s.intend(h); err != nil {
		return err
	}
	if held := s.holds.inTheWay(h.key, false, h); held != nil {
		return held
	}
	if !s.pool.promote(h.c, h.key) {
		return &driver.HeldError{Waiters: -1}
	}
	err := s.upgrade(h, r)
	if err != nil {
		s.pool.demote(h.c, h.key)
	}
	return err
}

// upgrade takes the exclusive lock, and then releases the shared one and the intent.
func (s *Store) upgrade(h *hold, r *driver.Request) error {
	key := number(h.key)
	_, err := h.c.exec(&promote, key)
	if hasCode(err, lockNotAvailable, queryCanceled, deadlockDetected) {
		// The server may have granted the lock just before the error.
		var granted bool
		if granted, err = isMine(h.c, h.key); err == nil && !granted {
			return s.heldBy(h.c, h.key)
		}
	}
	if err != nil {
		return failure(err)
	}
	var fence uint64
	if !s.cfg.noFences {
		if fence, err = s.mint(h.c, h.key, false, r); err != nil {
			return s.undo(h.c, h.key, 0, err)
		}
	}
	rows, err := h.c.exec(&promoted, key, number(s.cfg.keys.intent(h.name)))
	if err == nil && (string(rows[0][0]) != "t" || string(rows[0][1]) != "t") {
		h.c.lose(fmt.Errorf("the session did not have the shared lock"))
	}
	if err != nil {
		h.c.lose(err)
		return failure(err)
	}
	s.holds.change(func() { h.shared, h.intent, h.fence = false, false, fence })
	h.timer.Stop()
	return nil
}

// intend records in the server that h wants to be promoted. A second lock of the server stands for
// this intent, and the session of h takes that lock. If the session has it already, intend renews
// the intent. An intent that is not renewed in time ends after nine tenths of MaxIntent; see the
// method lapse.
func (s *Store) intend(h *hold) error {
	lapse := driver.MaxIntent * 9 / 10
	if h.intent {
		h.timer.Reset(lapse)
		return nil
	}
	intent := s.cfg.keys.intent(h.name)
	_, err := h.c.exec(&promote, number(intent))
	if hasCode(err, lockNotAvailable, queryCanceled, deadlockDetected) {
		rows, err := h.c.exec(&countExclusive, number(intent))
		switch {
		case err != nil:
			return failure(err)
		case parse(rows[0][0]) > 0: // the server granted the lock just before the error
		case parse(rows[0][1]) > 0:
			return driver.ErrPromotionConflict
		default:
			// No other reader wants to be promoted. The error comes from a new reader. A new reader
			// locks the intent for a moment, to check that nobody wants to be promoted.
			return s.heldBy(h.c, h.key)
		}
	} else if err != nil {
		return failure(err)
	}
	s.holds.change(func() { h.intent = true })
	name, token := h.name, h.token
	h.timer = time.AfterFunc(lapse, func() { s.lapse(name, token) })
	return nil
}

// lapse withdraws an intent that was not renewed in time.
func (s *Store) lapse(name, token string) {
	if s.calls.Begin(s.calls.Closing) != nil {
		return
	}
	defer s.calls.Work.Done()
	h, err := s.enterHeld(s.calls.Closing, name, token)
	if err != nil {
		return
	}
	defer s.holds.leave(h)
	if h.intent {
		_ = s.withdraw(h)
	}
}

// demote takes the shared lock before it releases the exclusive one, so nobody can take the lock in
// between. The statement calls pg_advisory_lock_shared, which can wait for a lock. It does not wait
// here: a session that has the exclusive lock goes ahead of the sessions that wait for it.
func (s *Store) demote(h *hold) error {
	if !s.cfg.noFences {
		// Readers that join from now on get the same fence.
		if _, err := h.c.exec(&s.sql.toShared, number(h.key)); err != nil {
			return failure(err)
		}
	}
	rows, err := h.c.exec(&demote, number(h.key))
	if err != nil {
		return s.undo(h.c, h.key, 1, failure(err))
	}
	if string(rows[0][2]) != "t" {
		h.c.lose(fmt.Errorf("the session did not have the lock"))
		return driver.ErrLost
	}
	s.holds.change(func() { h.shared = true })
	s.pool.demote(h.c, h.key)
	return nil
}
