package mysqladvisory

import (
	"context"
	"encoding/json"
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
	if err := s.take(ctx, h, r); err != nil {
		return driver.Grant{}, err
	}
	return h.grant(), nil
}

// take makes one try.
func (s *Store) take(ctx context.Context, h *hold, r *driver.Request) error {
	l, err := s.prepare()
	if err != nil {
		return err
	}
	h.key = l.keys.lockName(r.Name)
	end, err := s.holds.beginAsk(ctx, h.key)
	if err != nil {
		return err
	}
	defer end()
	// The server lets a session take a lock twice. So the store first checks the holds of this
	// process.
	if held := s.holds.inTheWay(h.key); held != nil {
		return held
	}
	c, err := s.pool.reserve()
	if err != nil {
		return err
	}
	var fence uint64
	if err = ctx.Err(); err == nil {
		fence, err = s.askServer(c, l, h, r)
	}
	if err == nil {
		s.holds.noteGrant(h, held, c, fence, r)
	}
	s.pool.finish(c, err == nil)
	return err
}

// askServer requests the lock from the server, in the session of c.
func (s *Store) askServer(c *conn, l *layout, h *hold, r *driver.Request) (fence uint64, err error) {
	row, err := c.queryOne(take(h.key, 0))
	if yes, unsent := connEnded(err); yes {
		if !unsent {
			h.state, h.c = unsure, c
		}
		return 0, failure(err)
	}
	switch {
	case hasNumber(err, deadlock, userLockDeadlock):
		return 0, s.heldBy(c, l, h.key)
	case err != nil:
		return 0, s.undo(c, h.key, failure(err))
	}
	if err := c.judge(row, 1); err != nil {
		return 0, err
	}
	switch {
	case !row[0].Valid:
		return 0, s.undo(c, h.key, errNull)
	case !row.isOne(0):
		return 0, s.heldBy(c, l, h.key)
	case s.cfg.noFences:
		return 0, nil
	}
	fence, err = s.mint(c, l, h.key, r)
	if yes, _ := connEnded(err); yes { // the session had the lock
		h.state, h.c = unsure, c
		return 0, fmt.Errorf("%w: %s", driver.ErrUncertain, err)
	}
	if errors.Is(err, driver.ErrFencesUsedUp) {
		return 0, s.undo(c, h.key, err)
	}
	if err != nil {
		return 0, s.undo(c, h.key, failure(err))
	}
	return fence, nil
}

// Extend implements driver.Store. It asks the server, to make sure that the session still has the
// lock.
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
		g := h.grant()
		if err := h.c.verify(h.key); err != nil {
			if !h.c.alive() {
				err = driver.ErrLost
			}
			return driver.Grant{}, failure(err)
		}
		return g, nil
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
		l, err := s.prepare()
		if err != nil {
			return struct{}{}, err
		}
		holder, err := json.Marshal(h.holder)
		if err == nil {
			_, err = h.c.exec(l.sql.raiseFence(h.key, fence, h.name, h.c.mark, string(holder)))
		}
		if err == nil {
			h.fence = max(h.fence, fence)
		}
		return struct{}{}, failure(err)
	})
	return err
}
