package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
)

// reservationTTL is how long a lock that was granted to a waiter stays reserved for that waiter.
const reservationTTL = 400 * time.Millisecond

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &s.promises); err != nil {
		return driver.OutcomeGone, err
	}
	return runOp(ctx, s, func() (driver.Outcome, error) {
		h, err := s.holds.enter(ctx, name, token)
		if err != nil {
			return driver.OutcomeGone, err
		}
		defer s.holds.leave(h)
		switch {
		case h.state == none:
			return driver.OutcomeGone, s.checkReachable(ctx)
		case h.state == uncertain:
			return driver.OutcomeGone, s.settle(ctx, h)
		case !h.ss.alive():
			s.tidy(h)
			return driver.OutcomeGone, nil
		}
		return s.letGo(h)
	})
}

// checkReachable checks whether a server can be reached.
func (s *Store) checkReachable(ctx context.Context) error {
	ss, err := s.session(ctx)
	if err != nil {
		return err
	}
	return ss.retryRequest(func() error { _, err := ss.conn.Sync(s.cfg.root); return err })
}

// tidy forgets a hold whose session was lost. The servers may not have ended the session yet. So if
// the store has a new session that is alive, tidy deletes the node of the hold.
func (s *Store) tidy(h *hold) {
	path := h.path()
	s.holds.clear(h, errReleased)
	if s.cfg.symfony { // the node may be the next holder's
		return
	}
	s.mu.Lock()
	ss := s.live
	s.mu.Unlock()
	if ss != nil && ss.alive() {
		s.calls.Go(func() { _ = ss.conn.Delete(path, -1) })
	}
}

// letGo deletes the node of h. If the reply to that is lost, the store repeats the deletion until
// the session ends.
func (s *Store) letGo(h *hold) (driver.Outcome, error) {
	ss := h.ss
	s.holds.setLeaving(h)
	var err error
	if s.cfg.symfony {
		err = ss.dropSymfony(h)
	} else {
		err = ss.delete(h.path())
	}
	n, dir := h.node, h.dir
	s.holds.clear(h, errReleased)
	switch {
	case err == nil:
		return driver.OutcomeReleased, nil
	case err == zk.ErrNoNode: // Break deleted it
		return driver.OutcomeGone, nil
	case errors.Is(err, driver.ErrUncertain) && s.cfg.symfony:
		ss.lose(err) // the node ends with the session
	case errors.Is(err, driver.ErrUncertain):
		ss.deleteLater(dir, n)
	}
	return driver.OutcomeGone, err
}

// later runs f, which a timer has started, as an operation on a hold.
func (s *Store) later(name, token string, f func(h *hold)) {
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

// settle deletes the node of an earlier try whose reply was lost, if that node exists.
func (s *Store) settle(ctx context.Context, h *hold) error {
	ss, err := s.session(ctx)
	if err == nil && s.cfg.symfony {
		err = ss.settleSymfony(h)
	} else if err == nil {
		err = ss.discard(h.dir, h.guid)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUncertain, err)
	}
	s.holds.clear(h, errReleased)
	return nil
}

// discard deletes the node with the given GUID, if there is one.
func (ss *session) discard(dir, guid string) error {
	n, found, err := ss.search(dir, guid)
	if err != nil || !found {
		return err
	}
	if err = ss.delete(join(dir, n.String())); err == zk.ErrNoNode {
		return nil
	}
	return err
}
