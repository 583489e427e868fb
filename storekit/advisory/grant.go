package advisory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Acquire implements driver.Store.
func (s *Store[C]) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	return storekit.Do(ctx, &s.calls, func() (driver.Grant, error) { return s.acquire(ctx, &r) })
}

func (s *Store[C]) acquire(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	h, err := s.holds.enter(ctx, r.Name, r.Token.Text())
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

// take tries once to get the lock.
func (s *Store[C]) take(ctx context.Context, h *hold[C], r *driver.Request) error {
	if err := s.prepare(); err != nil {
		return err
	}
	h.key = s.dialect.Key(r.Name)
	if held := s.holds.inTheWay(h.key, r.Shared, h); held != nil {
		return held
	}
	c, joined, err := s.pool.reserve(h.key, r.Shared)
	if err != nil {
		return err
	}
	if err = ctx.Err(); err == nil && joined {
		err = s.mayJoin(c, h)
	}
	var fence uint64
	refused := false
	if err == nil {
		fence, refused, err = s.askServer(c, h, r)
	}
	if err == nil {
		s.holds.noteGrant(h, held, c, fence, r)
	}
	s.pool.finish(c)
	if refused {
		s.giveUp(c, h.lock(), r.Shared, err)
	}
	if err != nil {
		s.pool.drop(c, h.key)
	}
	return err
}

// mayJoin is called before a reader joins another reader in the same session. The server does not
// see that reader as a new one, so mayJoin returns an error if a reader of this process wants to be
// promoted, or if any session waits for the lock.
func (s *Store[C]) mayJoin(c *conn[C], h *hold[C]) error {
	if held := s.holds.inTheWay(h.key, true, h); held != nil {
		return held
	}
	queued, err := s.sharer.Queued(c.s, h.lock())
	if err == nil && queued {
		return s.heldBy(c, h.lock())
	}
	return s.failure(err)
}

// askServer requests the lock from the server, in the session of c. Other tries of this process for
// this lock run in other sessions, so the server decides between them. If refused is true, the
// server may have granted the lock before it refused the rest.
func (s *Store[C]) askServer(c *conn[C], h *hold[C], r *driver.Request) (fence uint64, refused bool, err error) {
	g, err := s.dialect.Try(c.s, h.lock(), r)
	switch noReply, unsent := storekit.IsNoReply(err); {
	case noReply && !unsent:
		h.state, h.c = unsure, c
		return 0, false, s.failure(err)
	case err != nil:
		return 0, !noReply, s.failure(err)
	case !g.Granted:
		return 0, false, s.heldBy(c, h.lock())
	}
	return g.Fence, false, nil
}

// Extend implements driver.Store. It asks the server, to make sure that the session still has the
// lock.
func (s *Store[C]) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.cfg.Guarantees); err != nil {
		return driver.Grant{}, err
	}
	return storekit.Do(ctx, &s.calls, func() (driver.Grant, error) {
		h, err := s.enterHeld(ctx, name, token)
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		g := h.grant()
		if err := s.verify(h); err != nil {
			return driver.Grant{}, err
		}
		return g, nil
	})
}

// RaiseFence implements driver.FenceRaiser.
func (s *Store[C]) RaiseFence(ctx context.Context, name, token string, fence uint64) error {
	err := cmp.Or(driver.CheckHold(name, token, &s.cfg.Guarantees), driver.CheckFence(fence))
	switch {
	case err != nil:
		return err
	case !s.fences:
		return fmt.Errorf("%w: the store has no fences", errors.ErrUnsupported)
	}
	_, err = storekit.Do(ctx, &s.calls, func() (struct{}, error) {
		h, err := s.enterHeld(ctx, name, token)
		if err != nil {
			return struct{}{}, err
		}
		defer s.holds.leave(h)
		err = s.dialect.RaiseFence(h.c.s, h.lock(), h.holder, fence)
		if err == nil {
			h.fence = max(h.fence, fence)
		}
		return struct{}{}, s.failure(err)
	})
	return err
}
