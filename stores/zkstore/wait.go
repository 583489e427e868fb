package zkstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Wait implements driver.Waiter. If reserve is true, the waiter joins the queue and watches the one
// or two nodes before its own. Otherwise it stays outside the queue and watches the first node that
// keeps it from getting the lock.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := s.check(&r); err != nil {
		return driver.Grant{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls.Closing, cancel)()
	g, err := s.wait(stop, &r, reserve)
	switch {
	case s.calls.Closing.Err() != nil:
		return driver.Grant{}, driver.ErrClosed
	case ctx.Err() != nil && g.TTL == 0:
		return driver.Grant{}, ctx.Err()
	}
	return g, failure(err)
}

func (s *Store) wait(ctx context.Context, r *driver.Request, reserve bool) (driver.Grant, error) {
	ss, err := s.session(ctx)
	switch {
	case err != nil:
		return driver.Grant{}, err
	case s.cfg.symfony:
		return driver.Grant{}, s.await(ctx, ss, func() (string, bool, error) { return s.cfg.symfonyNode(r.Name), true, nil })
	case !reserve:
		return driver.Grant{}, s.await(ctx, ss, func() (string, bool, error) { return s.firstInTheWay(ss, r) })
	}
	return s.queueUp(ctx, ss, r)
}

// queueUp joins the queue and waits until its node has the lock. Then it reserves the lock for the
// token of the caller.
func (s *Store) queueUp(ctx context.Context, ss *session, r *driver.Request) (driver.Grant, error) {
	dir, info := s.cfg.dir(r.Name), dataOf(r.Holder)
	s.awaitOwn(ctx, r.Name)
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	// The mapping is read before the wait: read after it, a hand-over takes a third request, and is
	// slower than with go-zookeeper's Lock.
	n, early, err := ss.joinAndLook(dir, kindOf(r.Shared, true), info, ss.lookWithMapping)
	if err != nil {
		return driver.Grant{}, s.orTryAgain(ctx, ss, err)
	}
	p := &place{ss: ss, dir: dir, node: n, joined: time.Now()}
	q, err := p.untilFirst(ctx, early)
	if err == nil && q != nil && ctx.Err() == nil && ss.alive() {
		return s.reserve(ctx, ss, p, q, r)
	}
	ss.deleteLater(dir, n)
	return driver.Grant{}, s.orTryAgain(ctx, ss, err)
}

// awaitOwn waits for a moment if a hold of this process has the lock, until its release begins. The
// requests of a session are carried out in order, so the node of the hold is then deleted before
// the waiter's node is made and the queue is read. If no other process waits, the waiter has the
// lock after one round trip.
func (s *Store) awaitOwn(ctx context.Context, name string) {
	p := s.holds.presence(name)
	if p == nil {
		return
	}
	pause := time.NewTimer(s.cfg.ownFor)
	defer pause.Stop()
	select {
	case <-p.ends:
	case <-pause.C:
	case <-ctx.Done():
	}
}

// orTryAgain returns nil if the only problem is that the session was lost or a reply was lost. The
// caller then tries again.
func (s *Store) orTryAgain(ctx context.Context, ss *session, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !ss.alive() || errors.Is(err, driver.ErrUncertain) {
		return nil
	}
	return err
}

// reserve is called when the node of a waiter has got the lock. For a short time, it reserves the
// lock for the token of the waiter's request.
func (s *Store) reserve(ctx context.Context, ss *session, p *place, q *queue, r *driver.Request) (driver.Grant, error) {
	dir, n := p.dir, p.node
	h, err := s.holds.enter(ctx, r.Name, r.Token.Text())
	if err != nil {
		ss.deleteLater(dir, n)
		return driver.Grant{}, err
	}
	defer s.holds.leave(h)
	var fence uint64
	if h.state != none {
		err = fmt.Errorf("%w: the token has a hold", driver.ErrInvalid)
	} else {
		h.dir, h.info, h.joined = dir, dataOf(r.Holder), p.joined
		fence, err = s.fenceFor(ss, h, n, q, r.FenceAbove)
	}
	if err == nil {
		err = s.holds.recordHold(ss, h, reserved, n, fence)
	}
	if err != nil {
		ss.deleteLater(dir, n)
		return driver.Grant{}, s.orTryAgain(ctx, ss, err)
	}
	name, token := r.Name, r.Token.Text()
	h.timer = time.AfterFunc(s.cfg.reserveFor, func() {
		s.later(name, token, func(h *hold) {
			if h.state == reserved { // nobody has claimed it in time
				_, _ = s.letGo(h)
			}
		})
	})
	return driver.Grant{Fence: fence, TTL: s.cfg.reserveFor}, nil
}

// firstInTheWay returns the first node that keeps a caller from getting the lock. The caller waits
// outside of the queue. If it has a hold already, the node of this hold does not count.
func (s *Store) firstInTheWay(ss *session, r *driver.Request) (string, bool, error) {
	dir := s.cfg.dir(r.Name)
	q, err := ss.readQueue(dir)
	if err != nil {
		return "", false, err
	}
	own := s.nodeOf(r.Name, r.Token.Text())
	for _, n := range q.nodes {
		if n.guid != own && n.kind != intent && (!r.Shared || !n.kind.shared()) {
			return join(dir, n.String()), true, nil
		}
	}
	return "", false, nil
}

// nodeOf returns the GUID of the node of a token's hold, or "" if the token has no hold.
func (s *Store) nodeOf(name, token string) string {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	if h := s.holds.byID[storekit.IDOf(name, token)]; h != nil && h.state == held {
		return h.node.guid
	}
	return ""
}

// await waits until findBlocker finds no node in the way. findBlocker returns the path of the node
// to wait for. When that node is deleted, await calls findBlocker again. It also calls findBlocker
// from time to time, in case a watch was lost.
func (s *Store) await(ctx context.Context, ss *session, findBlocker func() (path string, blocked bool, err error)) error {
	for ctx.Err() == nil {
		path, blocked, err := findBlocker()
		if err != nil || !blocked {
			return err
		}
		w, there, err := ss.watchDeletion(path)
		if cutOff(err) {
			if err := ss.waitConnected(ctx); err != nil && !ss.alive() {
				return err
			}
			continue
		}
		switch {
		case err != nil:
			return err
		case !there && s.cfg.symfony:
			return nil
		case !there:
			continue
		}
		pause := time.NewTimer(s.cfg.timeout + rand.N(s.cfg.timeout))
		select {
		case <-w.done:
		case <-pause.C:
		case <-ctx.Done():
		case <-ss.bound.Done():
			pause.Stop()
			return context.Cause(ss.bound)
		}
		pause.Stop()
		if s.cfg.symfony {
			return nil
		}
	}
	return ctx.Err()
}
