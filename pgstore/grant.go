package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	return do(ctx, s, func() (driver.Grant, error) { return s.acquire(ctx, &r) })
}

func (s *Store) check(r *driver.Request) error {
	if err := r.Validate(&s.promises); err != nil {
		return err
	}
	if r.Replaces != "" {
		return fmt.Errorf("%w: a hold that ends with its connection cannot be handed to another process", errors.ErrUnsupported)
	}
	return nil
}

func (s *Store) acquire(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	h, err := s.holds.enter(ctx, r.Name, r.Token)
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.holds.leave(h)
	switch {
	case h.state == doubt:
		if err := s.settle(h); err != nil {
			return driver.Grant{}, err
		}
	case h.state != none && !h.c.alive():
		return driver.Grant{}, driver.ErrLost
	case h.state == reserved:
		if err := s.claim(h); err != nil {
			return driver.Grant{}, err
		}
		return h.grant(), nil
	case h.state == held:
		return h.grant(), nil
	}
	h.key = s.cfg.keys.lock(r.Name)
	if err := s.take(ctx, h, r); err != nil {
		return driver.Grant{}, err
	}
	return h.grant(), nil
}

// take makes one try.
func (s *Store) take(ctx context.Context, h *hold, r *driver.Request) error {
	if err := s.prepare(); err != nil {
		return err
	}
	c, joined, err := s.pool.reserve(h.key, r.Shared)
	if err != nil {
		return err
	}
	// The other tries of this process on this lock run in other sessions, so the server decides
	// between them; those that were granted are known here.
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
		fence, err = s.ask(c, h, r)
		if hasCode(err, undefinedTable) { // the server lost its data
			if err = s.prepareAgain(); err == nil {
				fence, err = s.ask(c, h, r)
			}
		}
	}
	s.pool.finish(c, h.key, err == nil)
	if err != nil {
		return err
	}
	s.holds.set(h, held, c, r.Shared, fence, r)
	return nil
}

// nobodyWaits is for a reader that joins another one in its session, where the server would let it
// overtake writers.
func (s *Store) nobodyWaits(c *conn, key int64) error {
	rows, err := c.exec(&queued, number(key))
	if err != nil {
		return failure(err)
	}
	if parse(rows[0][0]) > 0 {
		return s.heldBy(c, key)
	}
	return nil
}

// ask asks the server for the lock, in the session of c.
func (s *Store) ask(c *conn, h *hold, r *driver.Request) (fence uint64, err error) {
	i := index(r.Shared)
	params := [][]byte{number(h.key), number(s.cfg.keys.intent(h.name)), number(int64(r.FenceAbove)), bytea(r.Name)}
	switch {
	case s.cfg.noFences && !r.Shared:
		params = params[:1]
	case s.cfg.noFences:
		params = params[:2]
	}
	rows, err := c.exec(&s.sql.take[i], params...)
	if yes, unsent := ended(err); yes {
		if !unsent {
			h.state, h.c = doubt, c
		}
		return 0, failure(err)
	}
	if err != nil { // the session may have been granted the lock before the rest failed
		return 0, s.undo(c, h.key, i, failure(err))
	}
	if string(rows[0][0]) != "t" {
		return 0, s.heldBy(c, h.key)
	}
	if s.cfg.noFences {
		return 0, nil
	}
	if rows[0][1] == nil {
		return 0, s.undo(c, h.key, i, driver.ErrFencesUsedUp)
	}
	return parse(rows[0][1]), nil
}

// undo gives a lock back that the session may have, and returns why.
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

// settle finds out whether the session of a connection that ended is gone. Until then it may have
// the lock of h.
func (s *Store) settle(h *hold) error {
	c, err := s.pool.any()
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

// Extend implements driver.Store. It asks the server whether the connection of the hold lives.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	err := driver.CheckHold(name, token, &s.promises)
	if err == nil && ttl != 0 {
		err = driver.CheckTTL("TTL", ttl, &s.promises)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return do(ctx, s, func() (driver.Grant, error) {
		h, err := s.enterHeld(ctx, name, token)
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		return h.grant(), s.verify(h)
	})
}

// enterHeld is holds.enter for a hold that lives.
func (s *Store) enterHeld(ctx context.Context, name, token string) (*hold, error) {
	h, err := s.holds.enter(ctx, name, token)
	if err != nil {
		return nil, err
	}
	switch {
	case h.state == doubt:
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

// verify asks the server. A hold whose connection ends meanwhile is lost.
func (s *Store) verify(h *hold) error {
	if _, err := h.c.exec(&ping); err != nil {
		if !h.c.alive() {
			return driver.ErrLost
		}
		return failure(err)
	}
	return nil
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
	_, err := do(ctx, s, func() (struct{}, error) {
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
