package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// Extend implements driver.Store. Holds that are extended at about the same time share a request.
// Extend also checks that the key of the hold still exists. In the first third of the TTL after the
// grant, every call does so. Later, a call does so if a third of the TTL has passed since the last
// check.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckExtend(name, token, ttl, &guarantees); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	h := s.holds.find(name, idOf(token))
	if h == nil {
		var err error
		if h, err = s.recall(ctx, name, idOf(token)); err != nil {
			return driver.Grant{}, err
		}
	}
	return s.extend(ctx, h, ttl)
}

func (s *Store) extend(ctx context.Context, h *hold, ttl time.Duration) (driver.Grant, error) {
	now := s.cfg.clock.Now()
	if ttl != 0 {
		h.noteExtend(now)
	}
	if end := h.endsAt(); ttl == 0 || end >= now.Add(ttl) {
		return s.verify(ctx, h)
	}
	if err := s.renew(ctx, h, ttl); err != nil {
		return driver.Grant{}, err
	}
	h.mu.Lock()
	third := driver.Instant(ttl / 3)
	due := now-h.since < third || now-h.seen >= third || h.end < now.Add(ttl-freshFor(seconds(ttl)))
	g := h.lasts(now)
	h.mu.Unlock()
	if due {
		return s.verify(ctx, h)
	}
	return g, nil
}

// lasts returns what this store knows of the hold. The caller holds mu.
func (h *hold) lasts(now driver.Instant) driver.Grant {
	g := driver.Grant{Fence: h.fence, From: h.renewed, TTL: h.end.Sub(h.renewed), Shared: h.reader}
	if h.renewed == 0 { // this store has never renewed it
		g.From, g.TTL = 0, h.end.Sub(now)
	}
	return g
}

// renew extends the lease of the hold's group. A hold without a group joins one first. If that
// shows that another store has moved the hold, the hold joins again.
func (s *Store) renew(ctx context.Context, h *hold, ttl time.Duration) error {
	for again := h.strange.Load(); ; again = true {
		if err := s.renewOnce(ctx, h, ttl); err != nil || again || !h.strange.Load() {
			return err
		}
	}
}

func (s *Store) renewOnce(ctx context.Context, h *hold, ttl time.Duration) error {
	length := seconds(ttl)
	now := s.cfg.clock.Now()
	g := h.noteExtend(now)
	if g != nil && g.length != length {
		h.leaveGroup()
		g = nil
	}
	var err error
	if g == nil {
		if err = s.learnEnd(ctx, h); err != nil || h.endsAt() >= now.Add(ttl) {
			return err
		}
		if h.mayEndAt() > now.Add(time.Duration(length)*time.Second) {
			length++
		}
		g, err = s.groups.join(ctx, h, length)
	}
	if err == nil {
		if err = g.extend(ctx, s.leases, h); err != nil && !g.isIn(h) {
			h.leaveGroup()
		}
	}
	if isNoSpace(err) { // a new lease, or the move to another one, was refused
		return s.renewAlone(ctx, h)
	}
	return err
}

// learnEnd asks the server when a strange hold ends. The hold must not move to a lease that ends
// earlier.
func (s *Store) learnEnd(ctx context.Context, h *hold) error {
	if !h.strange.Load() {
		return nil
	}
	now := s.cfg.clock.Now()
	kv, err := s.conn.readHold(ctx, h)
	if err != nil || kv == nil {
		return err // if the key is gone, extend calls verify, which finds out why
	}
	left, err := s.conn.timeLeft(ctx, clientv3.LeaseID(kv.Lease))
	if err != nil || left == 0 {
		return err
	}
	h.wroteAt(kv.ModRevision)
	h.setLease(&lease{from: now, end: now.Add(left)})
	return nil
}

// renewAlone renews the lease that the hold has now, even if other holds share it. A server without
// space can still do that.
func (s *Store) renewAlone(ctx context.Context, h *hold) error {
	kv, err := s.conn.readHold(ctx, h)
	if err != nil || kv == nil {
		return err // if the key is gone, extend calls verify, which finds out why
	}
	l, err := s.leases.renew(ctx, clientv3.LeaseID(kv.Lease))
	switch {
	case isLeaseGone(err): // then the key goes, too
		return nil
	case err != nil:
		return err
	}
	h.setLease(l)
	return nil
}

// verify asks the server whether the key of the hold still exists.
func (s *Store) verify(ctx context.Context, h *hold) (driver.Grant, error) {
	now := s.cfg.clock.Now()
	kv, err := s.conn.readHold(ctx, h)
	if err != nil {
		return driver.Grant{}, err
	}
	if kv == nil {
		return s.explain(ctx, h)
	}
	h.mu.Lock()
	h.seen = max(h.seen, now)
	g, isKnown := h.lasts(now), h.end > now
	h.mu.Unlock()
	if !isKnown { // another store extended the hold, or the hold is about to end
		left, err := s.conn.timeLeft(ctx, clientv3.LeaseID(kv.Lease))
		if err != nil {
			return driver.Grant{}, err
		}
		g.From, g.TTL = 0, max(left, time.Millisecond)
	}
	return g, nil
}

// explain returns the error that says why the key of a hold is gone. If another store has only
// promoted or demoted the hold, explain returns a Grant instead.
func (s *Store) explain(ctx context.Context, h *hold) (driver.Grant, error) {
	h.leaveGroup()
	st, err := s.conn.readState(ctx, s.cfg.keysOf(h.name), h.name)
	if err != nil {
		return driver.Grant{}, err
	}
	if e := st.liveHold(h.id); e != nil {
		n, left, err := s.remember(ctx, h.name, e)
		if err != nil {
			return driver.Grant{}, err
		}
		return driver.Grant{Fence: n.fencing(), TTL: max(left, time.Millisecond), Shared: n.reader}, nil
	}
	if !h.reader && st.fence == h.fencing() {
		return driver.Grant{}, driver.ErrExpired
	}
	return driver.Grant{}, driver.ErrLost
}

// recall asks the server for a hold that this store does not know, and remembers it. Another store
// or an earlier process may have obtained the hold.
func (s *Store) recall(ctx context.Context, name, id string) (*hold, error) {
	st, err := s.conn.readState(ctx, s.cfg.keysOf(name), name)
	if err != nil {
		return nil, err
	}
	e := st.liveHold(id)
	if e == nil {
		return nil, driver.ErrLost
	}
	h, _, _ := s.remember(ctx, name, e) // if the end is unknown, extend asks for it
	return h, nil
}

// remember records a hold that was found on the server. It also asks the server when the lease of
// the hold ends, and returns the error of that request.
func (s *Store) remember(ctx context.Context, name string, e *entry) (h *hold, left time.Duration, err error) {
	now := s.cfg.clock.Now()
	h = &hold{name: name, id: e.ID, key: e.key, fence: e.Fence, reader: e.kind == shared, recalled: true, since: now}
	h.modified.Store(e.modified)
	h.strange.Store(true)
	if left, err = s.conn.timeLeft(ctx, e.lease); left > 0 {
		h.end = now.Add(left)
	}
	s.holds.remember(h)
	return h, left, err
}
