package etcdstore

import (
	"context"
	"time"

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
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	if h := s.holds.find(r.Name, idOf(r.Token.Text())); h != nil {
		r.TTL = max(r.TTL, h.endsAt().Sub(s.cfg.clock.Now())) // the new lease lasts as long as the old one
	}
	return s.withLeases(ctx, &r, func(a *attempt) error { return a.convert(ctx) })
}

func (a *attempt) convert(ctx context.Context) error {
	st, err := a.s.conn.readState(ctx, a.keys, a.r.Name)
	if err != nil {
		return err
	}
	var refused error
	err = a.apply(ctx, st, func(st *state) (*change, error) {
		e := st.liveHold(a.id)
		if refused = nil; e == nil {
			return nil, a.whyLost(st)
		}
		if (e.kind == shared) == a.r.Shared {
			todo, err := a.keepHold(ctx, st, e)
			if err == nil {
				st.deleteIntent(todo, a.id)
			}
			return todo, err
		}
		if a.r.Shared {
			return a.changeMode(ctx, st, e, shared, e.Fence)
		}
		if refused = st.conflict(a.id); refused != nil {
			return a.intend(ctx, st, e, refused)
		}
		if err := st.checkOwn(); err != nil {
			return nil, err
		}
		fence, err := nextFence(st.fence, a.r.FenceAbove)
		if err != nil {
			return nil, err
		}
		todo, err := a.changeMode(ctx, st, e, exclusive, fence)
		if err == nil {
			todo.ops = append(todo.ops, putFence(&a.keys, fence, a.keeper))
		}
		return todo, err
	})
	if err == nil && refused != nil {
		if held, ok := refused.(*driver.HeldError); ok {
			a.s.endTimes(ctx, held)
		}
		return refused
	}
	return err
}

// whyLost returns the error that says why the token has no hold.
func (a *attempt) whyLost(st *state) error {
	if h := a.s.holds.find(a.r.Name, a.id); h != nil && !h.reader && h.fencing() == st.fence {
		return driver.ErrExpired
	}
	return driver.ErrLost
}

// conflict returns the error for a promotion that cannot succeed now.
func (st *state) conflict(id string) error {
	for i := range st.entries {
		if e := &st.entries[i]; e.kind == intending && e.ID != id && st.find(shared, e.ID) != nil {
			return driver.ErrPromotionConflict
		}
	}
	if st.excluded(id, false) {
		return st.heldError(id, false)
	}
	return nil
}

// changeMode returns the change that makes an exclusive hold shared, or a shared hold exclusive.
func (a *attempt) changeMode(ctx context.Context, st *state, e *entry, mode kind, fence uint64) (*change, error) {
	lease, err := a.leaseFor(ctx, e)
	if err != nil {
		return nil, err
	}
	todo := &change{}
	todo.requireEntry(e)
	a.granted = true
	a.entry = entry{kind: mode, key: st.key(exclusive, ""), record: e.record}
	if a.entry.Fence = fence; mode == shared {
		a.entry.key = st.freeKey(shared, a.s.id)
	}
	st.deleteOthers(todo, a.id)
	todo.ops = append(todo.ops, deleteKey(e.key), putKey(a.entry.key, a.entry.text(), lease))
	return todo, nil
}

// intend is the first step of a promotion that has to wait for other readers. The change that it
// returns records the intent of this reader. If another reader has an intent already, intend
// returns nil.
func (a *attempt) intend(ctx context.Context, st *state, e *entry, refused error) (*change, error) {
	if refused == driver.ErrPromotionConflict {
		return nil, nil
	}
	l, err := a.s.leases.grant(ctx, int64(driver.MaxIntent/time.Second))
	if err != nil {
		return nil, err
	}
	todo := &change{}
	todo.requireEntry(e)
	intent := record{ID: a.id}
	todo.ops = append(todo.ops, putKey(st.key(intending, e.part), intent.text(), l.id))
	return todo, nil
}
