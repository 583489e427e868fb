package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// Convert implements driver.Converter.
//
//	hold       asked for   others            result
//	shared     shared      -                 verified; its intent is withdrawn
//	shared     exclusive   none              exclusive, with a new fence
//	shared     exclusive   another's intent  ErrPromotionConflict
//	shared     exclusive   other readers     *HeldError; its intent is noted
//	exclusive  exclusive   -                 verified
//	exclusive  shared      -                 shared, with the same fence
func (s *Store) Convert(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.work.Done()
	ctx, cancel := limit(ctx)
	defer cancel()
	if h := s.holds.get(r.Name, idOf(r.Token)); h != nil {
		if left := h.endsAt().Sub(s.cfg.clock.Now()); left > r.TTL && left <= driver.MaxTTL {
			r.TTL = left // the lease lasts as long as before
		}
	}
	return s.withLeases(ctx, &r, func(a *attempt) error { return a.convert(ctx) })
}

func (a *attempt) convert(ctx context.Context) error {
	st, err := a.s.conn.read(ctx, a.place, a.r.Name)
	if err != nil {
		return err
	}
	var refused error
	err = a.apply(ctx, st, func(st *state) (*change, error) {
		e := st.hold(a.id)
		if refused = nil; e == nil {
			return nil, a.lost(st)
		}
		if (e.kind == shared) == a.r.Shared {
			todo := a.keep(st, e)
			todo.do(clientv3.OpDelete(st.key(intending, a.id)))
			return todo, nil
		}
		if a.r.Shared {
			return a.turn(st, e, shared, e.Fence), nil
		}
		if refused = st.conflict(a.id); refused != nil {
			return a.intend(ctx, st, e, refused)
		}
		fence, err := mint(st.fence, a.r.FenceAbove)
		if err != nil {
			return nil, err
		}
		todo := a.turn(st, e, exclusive, fence)
		a.raise(todo, fence)
		return todo, nil
	})
	if err == nil && refused != nil {
		if held, ok := refused.(*driver.HeldError); ok {
			a.s.untils(ctx, held)
		}
		return refused
	}
	return err
}

// lost says why there is no hold.
func (a *attempt) lost(st *state) error {
	if h := a.s.holds.get(a.r.Name, a.id); h != nil && !h.reader && h.fencing() == st.fence {
		return driver.ErrExpired
	}
	return driver.ErrLost
}

// conflict returns the error for a promotion that cannot succeed now.
func (st *state) conflict(id string) error {
	for i := range st.entries {
		if e := &st.entries[i]; e.kind == intending && e.id != id && st.find(shared, e.id) != nil {
			return driver.ErrPromotionConflict
		}
	}
	if st.excluded(id, false) {
		return st.heldError(id, false)
	}
	return nil
}

// turn gives a hold another mode.
func (a *attempt) turn(st *state, e *entry, to kind, fence uint64) *change {
	todo := &change{}
	todo.still(e)
	a.granted = true
	a.entry = entry{kind: to, id: a.id, key: st.key(to, a.id), lease: a.lease.id, record: e.record}
	a.entry.Fence = fence
	todo.do(clientv3.OpDelete(e.key), clientv3.OpDelete(st.key(intending, a.id)),
		clientv3.OpDelete(st.key(waiting, a.id)), put(a.entry.key, a.entry.text(), a.lease.id))
	for i := range st.entries {
		if g := &st.entries[i]; g.Of == a.id {
			todo.do(clientv3.OpDelete(g.key), put(st.key(coolingOf(to), g.id), g.value, g.lease))
		}
	}
	return todo
}

// intend records that a reader wants to be promoted. After a conflict it records nothing.
func (a *attempt) intend(ctx context.Context, st *state, e *entry, refused error) (*change, error) {
	if refused == driver.ErrPromotionConflict {
		return nil, nil
	}
	l, err := a.s.leases.grant(ctx, int64(driver.MaxIntent/time.Second))
	if err != nil {
		return nil, failure(ctx, err, false)
	}
	todo := &change{}
	todo.still(e)
	todo.do(put(st.key(intending, a.id), "{}", l.id))
	return todo, nil
}
