package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/calls"
)

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	return calls.Do(ctx, &s.calls, func() (driver.Grant, error) { return s.acquire(ctx, &r) })
}

func (s *Store) acquire(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	h, err := s.holds.enter(ctx, r.Name, r.Token)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.holds.leave(h)
	if h.state == reserved && (!h.c.alive() || s.claim(h) != nil) {
		s.clear(h) // the reservation ended with its session, so this is a new try
	}
	switch {
	case h.state == unsure:
		if err := s.settle(h); err != nil {
			return driver.Grant{}, err
		}
	case h.state == held && !h.c.alive():
		return driver.Grant{}, driver.ErrLost
	case h.state == held:
		return h.grant(), nil
	}
	h.key = s.cfg.keys.lockNumber(r.Name)
	if err := s.take(ctx, h, r); err != nil {
		return driver.Grant{}, err
	}
	return h.grant(), nil
}

// take tries once to get the lock.
func (s *Store) take(ctx context.Context, h *hold, r *driver.Request) error {
	if err := s.prepare(); err != nil {
		return err
	}
	c, joined, err := s.pool.reserve(h.key, r.Shared)
	if err != nil {
		return err
	}
	// Other tries of this process for this lock run in other sessions, so the server decides
	// between them. The holds that this process already has are checked here.
	if held := s.holds.inTheWay(h.key, r.Shared, h); held != nil {
		s.pool.finish(c, h.key, false)
		return held
	}
	err = ctx.Err()
	if err == nil && joined {
		err = s.nobodyWaits(c, h.key)
	}
	var fence uint64
	if err == nil {
		fence, err = s.askServer(c, h, r)
		if hasCode(err, undefinedTable) { // the server has lost its tables
			if err = s.prepareAgain(); err == nil {
				fence, err = s.askServer(c, h, r)
			}
		}
	}
	s.pool.finish(c, h.key, err == nil)
	if err != nil {
		return err
	}
	s.holds.noteGrant(h, held, c, r.Shared, fence, r)
	return nil
}

// nobodyWaits returns an error if a session waits for the lock. The store calls it before a reader
// joins another reader in the same session, because the server would let the new reader overtake
// waiting writers.
func (s *Store) nobodyWaits(c *conn, key int64) error {
	rows, err := c.exec(&countQueued, number(key))
	if err != nil {
		return failure(err)
	}
	if parse(rows[0][0]) > 0 {
		return s.heldBy(c, key)
	}
	return nil
}

// askServer requests the lock from the server, in the session of c.
func (s *Store) askServer(c *conn, h *hold, r *driver.Request) (fence uint64, err error) {
	i := index(r.Shared)
	rows, err := c.exec(&s.sql.take[i], s.takeParams(h.key, r)...)
	if yes, unsent := connEnded(err); yes {
		if !unsent {
			h.state, h.c = unsure, c
		}
		return 0, failure(err)
	}
	if err != nil { // the server may have granted the lock before the rest of the statement failed
		return 0, s.undo(c, h.key, i, failure(err))
	}
	switch {
	case len(rows) == 0 || string(rows[0][0]) != "t":
		return 0, s.heldBy(c, h.key)
	case s.cfg.noFences:
		return 0, nil
	case rows[0][1] == nil || parse(rows[0][1]) >= driver.MaxFence:
		return 0, s.undo(c, h.key, i, driver.ErrFencesUsedUp)
	}
	return parse(rows[0][1]), nil
}

// takeParams returns the parameters of statements.take.
func (s *Store) takeParams(key int64, r *driver.Request) [][]byte {
	params := [][]byte{number(key)}
	if !s.cfg.noFences {
		params = append(params, number(int64(r.FenceAbove)), bytea(r.Name))
	}
	if r.Shared {
		params = append(params, number(s.cfg.keys.intent(r.Name)))
	}
	return params
}

// Extend implements driver.Store. It asks the server, to make sure that the connection of the hold
// is alive.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	err := driver.CheckHold(name, token, &s.promises)
	if err == nil && ttl != 0 {
		err = driver.CheckTTL("TTL", ttl, &s.promises)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return calls.Do(ctx, &s.calls, func() (driver.Grant, error) {
		h, err := s.enterHeld(ctx, name, token)
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		return h.grant(), s.verify(h)
	})
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	if err := driver.CheckHold(name, token, &s.promises); err != nil {
		return err
	}
	if err := driver.CheckFence(fence); err != nil {
		return err
	}
	if s.cfg.noFences {
		return fmt.Errorf("%w: the store has no fences", errors.ErrUnsupported)
	}
	_, err := calls.Do(ctx, &s.calls, func() (struct{}, error) {
		h, err := s.enterHeld(ctx, name, token)
		if err != nil {
			return struct{}{}, err
		}
		defer s.holds.leave(h)
		rows, err := h.c.exec(&s.sql.raise, number(h.key), number(int64(fence)))
		if err == nil && len(rows) == 1 {
			h.fence = max(h.fence, fence)
		}
		return struct{}{}, failure(err)
	})
	return err
}
