package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// Release implements driver.Store. Without a cool-down it makes one request.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckHold(name, token, &guarantees); err != nil {
		return driver.Gone, err
	}
	if err := driver.CheckKeep("cool-down", keep, &guarantees); err != nil {
		return driver.Gone, err
	}
	if err := s.begin(ctx); err != nil {
		return driver.Gone, err
	}
	defer s.work.Done()
	ctx, cancel := limit(ctx)
	defer cancel()
	return s.release(ctx, name, idOf(token), keep)
}

func (s *Store) release(ctx context.Context, name, id string, keep time.Duration) (driver.Outcome, error) {
	p := s.cfg.place(name)
	h := s.holds.take(name, id)
	ended := false
	var err error
	switch {
	case keep > 0:
		ended, err = s.cool(ctx, p, name, id, keep)
	case h != nil && len(h.next) > 0:
		ended, err = s.passOn(ctx, p, h)
	}
	if keep == 0 && !ended && err == nil {
		ended, err = s.erase(ctx, p, id, h)
	}
	switch {
	case err != nil:
		return driver.Gone, err
	case ended:
		return driver.Released, nil
	case h == nil || h.reader:
		return driver.Gone, nil
	}
	st, err := s.conn.read(ctx, p, name)
	switch {
	case err != nil:
		return driver.Gone, nil //nolint:nilerr // the hold is over; only the reason is not known
	case st.fence == h.fencing():
		return driver.Expired, nil
	}
	return driver.Taken, nil
}

// erase deletes the keys of a token, and reports whether the token had a hold. If the store knows
// the only key of the hold, it deletes only that key.
func (s *Store) erase(ctx context.Context, p place, id string, h *hold) (bool, error) {
	client, err := s.conn.get(ctx)
	if err != nil {
		return false, err
	}
	if h != nil && !h.reader && !h.placed {
		reply, err := client.Delete(ctx, h.key)
		if err != nil {
			return false, failure(ctx, err, true)
		}
		if reply.Deleted > 0 {
			return true, nil
		}
	}
	kinds := []kind{exclusive, waiting, shared, intending}
	if h != nil && h.placed && !h.reader {
		kinds = kinds[:2]
	}
	var ops []clientv3.Op
	for _, k := range kinds {
		ops = append(ops, clientv3.OpDelete(p.key(k, id)))
	}
	if h != nil && h.from != "" {
		ops = append(ops, clientv3.OpDelete(h.from))
	}
	reply, err := client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return false, failure(ctx, err, true)
	}
	n := int64(0)
	for i, r := range reply.Responses[:len(kinds)] {
		if kinds[i] != intending && (kinds[i] != waiting || h == nil) { // a place in the queue is not a hold
			n += r.GetResponseDeleteRange().Deleted
		}
	}
	return n > 0, nil
}

// cool ends the hold of a token and leaves a cool-down.
func (s *Store) cool(ctx context.Context, p place, name, id string, keep time.Duration) (ended bool, err error) {
	l, err := s.leases.grant(ctx, seconds(keep))
	if err != nil {
		return false, failure(ctx, err, false)
	}
	st, err := s.conn.read(ctx, p, name)
	if err != nil {
		return false, err
	}
	_, err = s.conn.change(ctx, st, func(st *state) (*change, error) {
		e := st.hold(id)
		if ended = e != nil; !ended {
			return nil, nil
		}
		todo := &change{}
		todo.still(e)
		left := record{Holder: e.Holder, Of: id}
		todo.do(clientv3.OpDelete(e.key), clientv3.OpDelete(p.key(intending, id)), clientv3.OpDelete(p.key(waiting, id)),
			put(p.key(coolingOf(e.kind), leaseID(l.id)), left.text(), l.id))
		return todo, nil
	})
	if isLeaseGone(err) {
		err = unavailable("the server does not keep a lease that it made")
	}
	return ended, err
}
