package etcdstore

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/padlock-go/padlock/driver"
)

// Release implements driver.Store. Without a cool-down it makes one request, if this store was
// granted the hold.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckHold(name, token, &guarantees); err != nil {
		return driver.Gone, err
	}
	if err := driver.CheckKeep("cool-down", keep, &guarantees); err != nil {
		return driver.Gone, err
	}
	if err := s.beginCall(ctx); err != nil {
		return driver.Gone, err
	}
	defer s.work.Done()
	ctx, cancel := s.conn.limits.limit(ctx)
	defer cancel()
	return s.release(ctx, name, idOf(token), keep)
}

func (s *Store) release(ctx context.Context, name, id string, keep time.Duration) (driver.Outcome, error) {
	p := s.cfg.place(name)
	h := s.holds.take(name, id)
	ended := false
	var err error
	if h != nil && keep == 0 && h.next != "" {
		ended, err = s.passOn(ctx, &p, h)
	}
	if h != nil && keep == 0 && !h.recalled && !ended && err == nil {
		ended, err = s.erase(ctx, &p, h)
	}
	if err == nil && !ended {
		return s.end(ctx, p, name, id, h, keep)
	}
	if err != nil {
		return driver.Gone, err
	}
	return driver.Released, nil
}

// erase deletes the keys of a hold that this store was granted. It returns false if the key of the
// hold is gone or was changed by somebody else. In that case nothing was deleted.
func (s *Store) erase(ctx context.Context, p *place, h *hold) (bool, error) {
	todo := []*pb.RequestOp{deleteKey(h.key)}
	if h.reader { // only the reader with this slot writes the intent with this slot
		todo = append(todo, deleteKey(p.key(intending, h.key[len(p.key(shared, "")):])))
	}
	for _, k := range []keyVersion{h.own, h.told} {
		if k.key != "" {
			todo = append(todo, deleteIfWrittenAt(k.key, k.modified))
		}
	}
	reply, err := s.conn.commit(ctx, []*pb.Compare{writtenAt(h.key, h.lastWrite())}, todo, nil)
	if err != nil {
		return false, failure(ctx, err, true)
	}
	return reply.Succeeded, nil
}

// end ends the hold of a token, whatever its keys are, and leaves a cool-down if keep is not 0. If
// the token has no hold, h says what this store was granted, or is nil.
func (s *Store) end(ctx context.Context, p place, name, id string, h *hold, keep time.Duration) (driver.Outcome, error) {
	l := &lease{}
	var err error
	if keep > 0 {
		if l, err = s.leases.grant(ctx, seconds(keep)); err != nil {
			return driver.Gone, failure(ctx, err, false)
		}
	}
	st, err := s.conn.readState(ctx, p, name)
	if err != nil {
		return driver.Gone, err
	}
	out := driver.Gone
	_, err = s.conn.change(ctx, st, func(st *state) (*change, error) {
		todo := &change{}
		st.deleteOthers(todo, id)
		e := st.liveHold(id)
		switch {
		case e != nil:
			out = driver.Released
			todo.requireEntry(e)
			todo.addOps(deleteKey(e.key))
			if keep > 0 {
				left := record{Holder: e.Holder, Of: id}
				todo.addOps(putKey(p.key(coolingOf(e.kind), leaseID(l.id)), left.text(), l.id))
			}
		case h == nil || h.reader:
			out = driver.Gone
		case st.fence == h.fencing():
			out = driver.Expired
		default:
			out = driver.Taken
		}
		if len(todo.ops) == 0 {
			return nil, nil
		}
		return todo, nil
	})
	switch {
	case isLeaseGone(err):
		return driver.Gone, unavailable("the server does not keep a lease that it made")
	case err != nil:
		return driver.Gone, err
	}
	return out, nil
}
