package etcdstore

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Pass implements driver.Passer. If the store knows the hold, one transaction gives its key to the
// next caller, or ends the hold if others wait or a cool-down follows.
func (s *Store) Pass(ctx context.Context, token string, next driver.Request) (driver.Outcome, driver.Grant, error) {
	if err := driver.CheckToken(token); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if err := next.Validate(&guarantees); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	if next.Shared || next.Replaces != "" || next.Token == token {
		return driver.OutcomeGone, driver.Grant{}, storekit.Invalidf("request: only an exclusive hold of its own can follow")
	}
	if err := s.beginCall(ctx); err != nil {
		return driver.OutcomeGone, driver.Grant{}, err
	}
	defer s.work.Done()
	ctx, cancel := s.conn.limits.limit(ctx)
	defer cancel()
	id := idOf(token)
	h := s.holds.find(next.Name, id)
	if h != nil && !h.recalled && !h.reader && h.next == "" {
		out, g, err := s.pass(ctx, h, next)
		if err == nil && out != driver.OutcomeReleased {
			out, err = s.endHold(ctx, s.cfg.keysOf(next.Name), next.Name, id, h, 0)
		}
		return out, g, err
	}
	if h == nil { // the caller may repeat a call whose reply was lost
		g, err := s.fullLease(ctx, next)
		if err == nil {
			return driver.OutcomeReleased, g, nil
		}
		if own := ownError(err); own != driver.ErrLost && own != driver.ErrExpired {
			return driver.OutcomeGone, driver.Grant{}, err
		}
	}
	out, err := s.release(ctx, next.Name, id, 0)
	return out, driver.Grant{}, err
}

// pass ends the hold h and tries to grant the name to the request next. If somebody has changed the
// key of h, it changes nothing and returns driver.OutcomeGone.
func (s *Store) pass(ctx context.Context, h *hold, next driver.Request) (out driver.Outcome, g driver.Grant, err error) {
	s.holds.take(h.name, h.id)
	fence, err := nextFence(h.fencing(), next.FenceAbove)
	if err != nil {
		return driver.OutcomeGone, g, nil //nolint:nilerr // the caller then releases the hold, and the next Acquire reports it
	}
	g, err = s.withLeases(ctx, &next, func(a *attempt) error {
		var todo change
		a.addHold(&todo, exclusive, h.key, fence)
		todo.ops = append(todo.ops, putFence(&a.keys, fence, a.keeper))
		mine := []*pb.Compare{writtenAt(h.key, h.modified.Load())}
		own := []string{h.key}
		todo.conds = append(mine, valueBelow(a.keys.fence, fenceText(fence)))
		for _, k := range []keyVersion{h.ownPlace, h.previousPlace} {
			if k.key != "" {
				own = append(own, k.key)
				todo.conds = append(todo.conds, writtenAt(k.key, k.modified))
				todo.ops = append(todo.ops, deleteKey(k.key))
			}
		}
		todo.conds = append(todo.conds, a.keys.onlyKeys(own)...)
		reply, err := s.conn.commit(ctx, todo.conds, todo.ops, []*pb.RequestOp{nested(mine, h.deletions(&a.keys), nil)})
		switch {
		case isNoSpace(err): // a Release needs no space
		case err != nil:
			return err
		case reply.Succeeded:
			out, a.entry.modified = driver.OutcomeReleased, reply.Header.Revision
			return nil
		case reply.Responses[0].GetResponseTxn().GetSucceeded():
			out = driver.OutcomeReleased
		}
		a.granted = false
		return nil
	})
	return out, g, err
}

// onlyKeys returns comparisons that are true if the name has no keys except the given ones.
func (p *nameKeys) onlyKeys(keys []string) (conds []*pb.Compare) {
	from := p.dir
	slices.Sort(keys)
	for _, key := range keys {
		conds = append(conds, noKeys(from, key))
		from = key + "\x00"
	}
	return append(conds, noKeys(from, p.end))
}
