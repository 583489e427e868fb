package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// Extend implements driver.Store. Holds that are extended at about the same time share a request.
// During the first third of the TTL, Extend also compares the key of the hold. Later it compares
// the key if the last comparison is at least a third of the TTL ago.
func (s *Store) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	if err := driver.CheckHold(name, token, &guarantees); err != nil {
		return driver.Grant{}, err
	}
	if ttl != 0 {
		if err := driver.CheckTTL("TTL", ttl, &guarantees); err != nil {
			return driver.Grant{}, err
		}
	}
	if err := s.begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.work.Done()
	ctx, cancel := limit(ctx)
	defer cancel()
	h := s.holds.get(name, idOf(token))
	if h == nil {
		var err error
		if h, err = s.recall(ctx, name, idOf(token)); err != nil {
			return driver.Grant{}, err
		}
	}
	return s.extend(ctx, h, ttl)
}

func (s *Store) extend(ctx context.Context, h *hold, ttl time.Duration) (driver.Grant, error) {
	if h.brief != nil && ttl != 0 {
		r := *h.brief
		r.TTL = ttl
		return s.fullLease(ctx, r)
	}
	now := s.cfg.clock.Now()
	if ttl != 0 {
		h.ask(now)
	}
	if end := h.endsAt(); ttl == 0 || end >= now.Add(ttl) {
		return s.verify(ctx, h)
	}
	if err := s.renew(ctx, h, ttl); err != nil {
		return driver.Grant{}, err
	}
	h.mu.Lock()
	third := driver.Instant(ttl / 3)
	due := now-h.since < third || now-h.checked >= third
	enough := h.end >= now.Add(ttl-fresh(seconds(ttl)))
	g := driver.Grant{Fence: h.fence, From: h.renewed, TTL: h.end.Sub(h.renewed), Shared: h.reader}
	h.mu.Unlock()
	if due || !enough {
		if v, err := s.verify(ctx, h); err != nil || !enough {
			return v, err
		}
	}
	return g, nil
}

// renew extends the lease of the hold's group. A hold without a group joins one first.
func (s *Store) renew(ctx context.Context, h *hold, ttl time.Duration) error {
	length := seconds(ttl)
	g := h.ask(s.cfg.clock.Now())
	if g != nil && g.length != length {
		h.leave()
		g = nil
	}
	var err error
	if g == nil {
		if g, err = s.groups.join(ctx, h, length); isNoSpace(err) {
			return s.renewAlone(ctx, h)
		}
		if err != nil {
			return failure(ctx, err, false)
		}
	}
	if err = g.extend(ctx, s.leases, h); err != nil && !g.isIn(h) {
		h.leave()
	}
	return failure(ctx, err, true)
}

// renewAlone renews the lease of the hold, even if other holds have that lease too. It is for a
// server that has no space for another lease.
func (s *Store) renewAlone(ctx context.Context, h *hold) error {
	client, err := s.conn.get(ctx)
	if err != nil {
		return err
	}
	reply, err := client.Get(ctx, h.key)
	if err != nil || len(reply.Kvs) == 0 {
		return failure(ctx, err, false) // verify looks again
	}
	l := lease{id: clientv3.LeaseID(reply.Kvs[0].Lease), from: s.cfg.clock.Now()}
	left, err := s.conn.keepAlive(ctx, l.id)
	if err != nil && !isLeaseGone(err) {
		return failure(ctx, err, true)
	}
	l.ttl = time.Duration(left) * time.Second
	h.until(&l)
	return nil
}

// verify asks whether the key of the hold is still there.
func (s *Store) verify(ctx context.Context, h *hold) (driver.Grant, error) {
	client, err := s.conn.get(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	now := s.cfg.clock.Now()
	reply, err := client.Get(ctx, h.key)
	if err != nil {
		return driver.Grant{}, failure(ctx, err, false)
	}
	if len(reply.Kvs) == 0 || reply.Kvs[0].CreateRevision != h.created {
		return s.explain(ctx, h)
	}
	h.mu.Lock()
	h.checked = max(h.checked, now)
	left := h.end.Sub(now)
	h.mu.Unlock()
	if left <= 0 { // another store extended the hold, or the hold is about to end
		left = max(s.conn.timeLeft(ctx, clientv3.LeaseID(reply.Kvs[0].Lease)), time.Millisecond)
	}
	return driver.Grant{Fence: h.fencing(), TTL: left, Shared: h.reader}, nil
}

// explain says why a hold is gone. If another store only changed its mode, explain returns the
// hold.
func (s *Store) explain(ctx context.Context, h *hold) (driver.Grant, error) {
	h.leave()
	st, err := s.conn.read(ctx, s.cfg.place(h.name), h.name)
	if err != nil {
		return driver.Grant{}, err
	}
	if e := st.hold(h.id); e != nil {
		n := s.remember(h.name, e)
		return driver.Grant{Fence: n.fencing(), TTL: max(s.conn.timeLeft(ctx, e.lease), time.Millisecond), Shared: n.reader}, nil
	}
	if !h.reader && st.fence == h.fencing() {
		return driver.Grant{}, driver.ErrExpired
	}
	return driver.Grant{}, driver.ErrLost
}

// recall finds a hold that was granted to another store or to an earlier process.
func (s *Store) recall(ctx context.Context, name, id string) (*hold, error) {
	st, err := s.conn.read(ctx, s.cfg.place(name), name)
	if err != nil {
		return nil, err
	}
	e := st.hold(id)
	if e == nil {
		return nil, driver.ErrLost
	}
	return s.remember(name, e), nil
}

func (s *Store) remember(name string, e *entry) *hold {
	n := &hold{name: name, id: e.id, key: e.key, created: e.created, fence: e.Fence, reader: e.kind == shared, placed: true, since: s.cfg.clock.Now()}
	s.holds.put(n)
	return n
}
