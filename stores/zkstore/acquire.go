package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	return runOp(ctx, s, func() (driver.Grant, error) { return s.acquire(ctx, &r) })
}

// check rejects requests that are invalid or that the store cannot carry out.
func (s *Store) check(r *driver.Request) error {
	if err := r.Validate(&s.promises); err != nil {
		return err
	}
	if r.Shared && s.cfg.symfony {
		return fmt.Errorf("%w: Symfony's layout has no shared locks", errors.ErrUnsupported)
	}
	if r.Replaces.Text() != "" {
		return fmt.Errorf("%w: a hold that ends with its session cannot be handed to another process", errors.ErrUnsupported)
	}
	return nil
}

func (s *Store) acquire(ctx context.Context, r *driver.Request) (driver.Grant, error) {
	h, err := s.holds.enter(ctx, r.Name, r.Token.Text())
	if err != nil {
		return driver.Grant{}, err
	}
	defer s.holds.leave(h)
	switch {
	case h.state == uncertain:
		if err := s.settle(ctx, h); err != nil {
			return driver.Grant{}, err
		}
	case h.state == none:
	case !h.ss.alive() && h.state == reserved:
		s.tidy(h) // the reservation ended with its session, so this is a new try
	case !h.ss.alive():
		return driver.Grant{}, driver.ErrLost
	case h.state == reserved:
		return s.claim(h), nil
	default:
		return h.grant(), s.verify(h)
	}
	ss, err := s.session(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	if s.cfg.symfony {
		err = s.trySymfony(ss, h, r)
	} else {
		err = s.tryOnce(ss, h, r)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return h.grant(), nil
}

// claim turns a reservation into a hold. Both are the same node, so no request is needed.
func (s *Store) claim(h *hold) driver.Grant {
	h.timer.Stop()
	s.holds.setHold(h, held, h.ss, h.node, h.fence)
	return h.grant()
}

// tryOnce tries to get the lock without waiting. It adds a node to the queue, and deletes the node
// again if the node does not have the lock.
func (s *Store) tryOnce(ss *session, h *hold, r *driver.Request) error {
	h.dir, h.info = s.cfg.dir(r.Name), dataOf(r.Holder)
	n, q, err := ss.joinAndLook(h.dir, kindOf(r.Shared, false), h.info, ss.readQueue)
	if lost := (*lostNode)(nil); errors.As(err, &lost) {
		s.holds.setUncertain(h, lost.guid)
	}
	if err != nil {
		return err
	}
	h.joined = time.Now()
	if q == nil {
		q, err = ss.readQueue(h.dir)
	}
	if err == nil {
		if _, blocked := q.blocker(n); blocked {
			err = s.refusal(ss, h.dir, q, n)
		}
	}
	var fence uint64
	if err == nil {
		fence, err = s.fenceFor(ss, h, n, q, r.FenceAbove)
	}
	if err != nil {
		if gone := ss.delete(join(h.dir, n.String())); gone != nil && gone != zk.ErrNoNode {
			ss.deleteLater(h.dir, n)
		}
		return err
	}
	return s.holds.recordHold(ss, h, held, n, fence)
}

// fenceFor returns the fence of a node that has the lock.
func (s *Store) fenceFor(ss *session, h *hold, n node, q *queue, above uint64) (uint64, error) {
	if n.kind.shared() {
		return ss.sharedFence(h, n, q, above)
	}
	return ss.fenceOf(h, n, q, above)
}

// refusal returns the error that names the holders of the lock. It reads their nodes in parallel.
func (s *Store) refusal(ss *session, dir string, q *queue, n node) error {
	held := &driver.HeldError{Waiters: q.waiters(n)}
	held.Holds, _ = ss.describe(dir, q.inTheWay()) // if this fails, the error does not name the holders
	return held
}

// Extend implements driver.Store. It asks whether the node of the hold is still there.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &s.promises); err != nil {
		return driver.Grant{}, err
	}
	return runOp(ctx, s, func() (driver.Grant, error) {
		h, err := s.holds.enterHeld(ctx, name, token)
		if err != nil {
			return driver.Grant{}, err
		}
		defer s.holds.leave(h)
		g := h.grant()
		return g, s.verify(h)
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
	if s.promises.Fence == driver.FenceNone {
		return fmt.Errorf("%w: the store has no fences", errors.ErrUnsupported)
	}
	_, err := runOp(ctx, s, func() (struct{}, error) {
		h, err := s.holds.enterHeld(ctx, name, token)
		if err != nil {
			return struct{}{}, err
		}
		defer s.holds.leave(h)
		if fence <= h.fence {
			return struct{}{}, s.verify(h)
		}
		if _, err = h.ss.raiseAgain(h, h.node, fence, fence); err != nil {
			return struct{}{}, err
		}
		if h.node.kind.shared() {
			err = h.ss.rewrite(h.dir, h.node, h.info, fence)
		}
		if err == nil {
			s.holds.change(h, h.node, fence)
		}
		return struct{}{}, err
	})
	return err
}
