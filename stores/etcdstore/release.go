package etcdstore

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/padlock-go/padlock/driver"
)

// Release implements driver.Store. If the hold was granted to this store and Release leaves no
// cool-down, Release usually sends one request.
func (s *Store) Release(ctx context.Context, name, token string, keep time.Duration) (driver.Outcome, error) {
	if err := driver.CheckRelease(name, token, keep, &guarantees); err != nil {
		return driver.OutcomeGone, err
	}
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return driver.OutcomeGone, err
	}
	defer done()
	return s.release(ctx, name, idOf(token), keep)
}

// release ends a hold. Without a cool-down, a hold that was granted to this store ends in one
// transaction, which compares only what the store remembers about it. Otherwise, and if somebody
// else has changed the hold, endHold reads the keys of the name first.
func (s *Store) release(ctx context.Context, name, id string, keep time.Duration) (driver.Outcome, error) {
	p := s.cfg.keysOf(name)
	h := s.holds.take(name, id)
	if h == nil || h.recalled || keep > 0 {
		return s.endHold(ctx, p, name, id, h, keep)
	}
	reply, err := s.conn.commit(ctx, []*pb.Compare{writtenAt(h.key, h.modified.Load())}, h.deletions(&p), nil)
	if err != nil {
		return driver.OutcomeGone, err
	}
	if reply.Succeeded {
		return driver.OutcomeReleased, nil
	}
	return s.endHold(ctx, p, name, id, h, 0)
}

// deletions returns the operations that delete the keys of a hold.
func (h *hold) deletions(p *nameKeys) []*pb.RequestOp {
	todo := []*pb.RequestOp{deleteKey(h.key)}
	if h.reader { // also delete the intent, if there is one; it has the part of the hold
		todo = append(todo, deleteKey(p.key(intending, h.key[len(p.key(shared, "")):])))
	}
	if h.ownPlace.key != "" {
		todo = append(todo, deleteIfWrittenAt(h.ownPlace.key, h.ownPlace.modified))
	}
	return todo
}

// endHold ends the token's hold, even if the server has no space for the cool-down. Otherwise the
// hold could last as long as others that share its lease are renewed.
func (s *Store) endHold(ctx context.Context, p nameKeys, name, id string, h *hold, keep time.Duration) (driver.Outcome, error) {
	out, err := s.endAndKeep(ctx, p, name, id, h, keep)
	if !isNoSpace(err) {
		return out, err
	}
	out, again := s.endAndKeep(ctx, p, name, id, h, 0)
	switch {
	case again != nil:
		return driver.OutcomeGone, again
	case out == driver.OutcomeReleased:
		return out, unavailable("%s; the lock is released without its cool-down", noSpace)
	case errors.Is(err, driver.ErrUncertain): // the first transaction may have ended the hold
		return driver.OutcomeGone, err
	}
	return out, nil
}

// endAndKeep reads the keys of the token's hold and deletes them. If keep is not 0, it leaves a
// cool-down. The argument h is what the store remembers about the hold, or nil. If the server has
// no hold of the token, h tells whether the hold expired or was taken away.
func (s *Store) endAndKeep(ctx context.Context, p nameKeys, name, id string, h *hold, keep time.Duration) (driver.Outcome, error) {
	l := &lease{}
	var err error
	if keep > 0 {
		if l, err = s.leases.grant(ctx, seconds(keep)); err != nil {
			return driver.OutcomeGone, err
		}
	}
	st, err := s.conn.readState(ctx, p, name)
	if err != nil {
		return driver.OutcomeGone, err
	}
	out := driver.OutcomeGone
	_, err = s.conn.applyChange(ctx, st, func(st *state) (*change, error) {
		todo := &change{}
		st.deleteOthers(todo, id)
		e := st.liveHold(id)
		switch {
		case e != nil:
			out = driver.OutcomeReleased
			todo.requireEntry(e)
			todo.ops = append(todo.ops, deleteKey(e.key))
			if keep > 0 {
				left := record{Holder: e.Holder}
				todo.ops = append(todo.ops, putKey(p.key(coolingOf(e.kind), leaseID(l.id)), left.text(), l.id))
			}
		case h == nil || h.reader:
			out = driver.OutcomeGone
		case st.fence == h.fencing():
			out = driver.OutcomeExpired
		default:
			out = driver.OutcomeTaken
		}
		if len(todo.ops) == 0 {
			return nil, nil
		}
		return todo, nil
	})
	if err != nil {
		return driver.OutcomeGone, err
	}
	return out, nil
}
