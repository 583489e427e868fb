package etcdstore

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// An attempt is one try of an operation that may grant a hold, such as Acquire, Wait or Convert.
type attempt struct {
	s      *Store
	keys   nameKeys
	r      *driver.Request
	id     string
	sent   driver.Instant
	lease  *lease
	keeper clientv3.LeaseID // the lease of the stored fence

	entry    entry // the key of the hold, if granted is true
	granted  bool
	ownPlace keyVersion     // the place in the queue that the hold keeps, or zero
	end      driver.Instant // the hold does not end before
	revision int64          // of the last change
	since    time.Time
	strange  bool // see hold.strange
}

// Acquire implements driver.Store. If the name is free, Acquire usually sends one transaction.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return driver.Grant{}, err
	}
	defer done()
	return s.withLeases(ctx, &r, func(a *attempt) error {
		if r.Replaces.Text() == "" {
			return a.takeFree(ctx)
		}
		st, err := s.conn.readState(ctx, a.keys, r.Name)
		if err != nil {
			return err
		}
		return a.apply(ctx, st, func(st *state) (*change, error) { return a.acquireChange(ctx, st) })
	})
}

// withLeases calls try with an attempt that has the leases it needs. Usually the store has these
// leases already. If the server has lost one of them, withLeases gets new leases and calls try
// again.
func (s *Store) withLeases(ctx context.Context, r *driver.Request, try func(*attempt) error) (driver.Grant, error) {
	for tries := 0; ; tries++ {
		a := &attempt{s: s, keys: s.cfg.keysOf(r.Name), r: r, id: idOf(r.Token.Text())}
		err := a.prepare(ctx)
		if err == nil {
			err = try(a)
		}
		if err == nil {
			return a.grant(), nil
		}
		if !isLeaseGone(err) || tries == 3 {
			return driver.Grant{}, err
		}
		s.leases.forget()
	}
}

// prepare gets the leases of the attempt.
func (a *attempt) prepare(ctx context.Context) (err error) {
	l := a.s.leases
	a.sent, a.since = a.s.cfg.clock.Now(), time.Now()
	if a.lease, err = l.forHold(ctx, a.r.TTL); err != nil {
		return err
	}
	a.end = a.lease.end
	a.keeper, err = l.forFence(ctx)
	return err
}

// addHold adds the operations that make a hold with the given key.
func (a *attempt) addHold(todo *change, k kind, key string, fence uint64) {
	a.granted = true
	a.entry = entry{kind: k, key: key,
		record: record{Fence: fence, ID: a.id, Since: a.since.UnixMicro(), Holder: a.r.Holder}}
	todo.ops = append(todo.ops, putKey(a.entry.key, a.entry.text(), a.lease.id))
}

// takeFree takes the name in one transaction. The transaction succeeds if the name has no keys,
// except for a stored fence that is smaller than the new fence. Otherwise takeFree goes on from the
// state of the name, like other attempts; see acquireChange.
func (a *attempt) takeFree(ctx context.Context) error {
	fence, err := nextFence(0, a.r.FenceAbove)
	if err != nil {
		return err
	}
	var todo change
	if a.r.Shared {
		a.addHold(&todo, shared, a.keys.key(shared, ownPart(a.s.id, 0)), fence)
	} else {
		a.addHold(&todo, exclusive, a.keys.key(exclusive, ""), fence)
	}
	todo.ops = append(todo.ops, putFence(&a.keys, fence, a.keeper))
	// If the name has no stored fence, the comparison hasFenceBelow is false. The nested transaction
	// is for this case: it takes the name if there is no fence, and reads the state otherwise.
	free := noKeys(a.keys.dir, a.keys.end)
	otherwise := nested([]*pb.Compare{free, noKeys(a.keys.fence, "")}, todo.ops, a.keys.reads())
	reply, err := a.s.conn.commit(ctx, append(hasFenceBelow(a.keys.fence, fenceText(fence)), free), todo.ops, []*pb.RequestOp{otherwise})
	if err != nil {
		return err
	}
	if reply.Succeeded || reply.Responses[0].GetResponseTxn().GetSucceeded() {
		a.entry.modified = reply.Header.Revision
		return nil
	}
	return a.apply(ctx, stateOf(a.keys, a.r.Name, reply), func(st *state) (*change, error) { return a.acquireChange(ctx, st) })
}

// isRefused reports whether the caller has no hold and cannot be granted one now.
func (a *attempt) isRefused(st *state) bool {
	return st.liveHold(a.id) == nil && (st.excluded(a.id, a.r.Shared) || st.waiterAhead(0, a.r.Shared) != nil)
}

// apply carries out the change that makeChange returns, and records the result in the attempt.
func (a *attempt) apply(ctx context.Context, st *state, makeChange func(*state) (*change, error)) error {
	revision, err := a.s.conn.applyChange(ctx, st, func(st *state) (*change, error) {
		// Forget an earlier decision, which was not carried out.
		a.granted, a.strange, a.ownPlace, a.end, a.entry = false, false, keyVersion{}, a.lease.end, entry{}
		return makeChange(st)
	})
	a.revision = revision
	if err == nil && a.granted && a.entry.modified == 0 {
		a.entry.modified = revision
	}
	if a.ownPlace.key != "" && a.ownPlace.modified == 0 {
		a.ownPlace.modified = revision
	}
	if held, ok := err.(*driver.HeldError); ok {
		a.s.endTimes(ctx, held)
	}
	return err
}

// acquireChange returns the change with which Acquire gets the hold. It returns an error if others
// keep the caller out.
func (a *attempt) acquireChange(ctx context.Context, st *state) (*change, error) {
	if e := st.liveHold(a.id); e != nil {
		return a.keepHold(ctx, st, e)
	}
	if err := st.checkOwn(); err != nil {
		return nil, err
	}
	if a.r.Replaces.Text() != "" {
		return a.replace(st)
	}
	if a.isRefused(st) {
		return nil, st.heldError(a.id, a.r.Shared)
	}
	return a.takeName(st)
}

// takeName returns the change that grants the name, which must be free for the caller. Readers that
// hold the name together have the same fence, unless one of them asked for a greater one with
// FenceAbove.
func (a *attempt) takeName(st *state) (*change, error) {
	if err := st.checkOwn(); err != nil {
		return nil, err
	}
	var todo change
	fence := st.fence
	if !a.r.Shared || !st.reading() || a.r.FenceAbove >= fence {
		var err error
		if fence, err = nextFence(st.fence, a.r.FenceAbove); err != nil {
			return nil, err
		}
		todo.ops = append(todo.ops, putFence(&a.keys, fence, a.keeper))
	}
	if a.r.Shared {
		a.addHold(&todo, shared, st.freeKey(shared, a.s.id), fence)
	} else {
		a.addHold(&todo, exclusive, st.key(exclusive, ""), fence)
	}
	return &todo, nil
}

// keepHold returns the change for a token that has the hold e already. The change gives the hold a
// full lease, unless the hold's lease lasts long enough.
func (a *attempt) keepHold(ctx context.Context, st *state, e *entry) (*change, error) {
	lease, err := a.leaseFor(ctx, e)
	if err != nil {
		return nil, err
	}
	a.entry, a.granted = *e, true
	todo := &change{}
	todo.requireEntry(e)
	place := st.find(waiting, e.ID)
	if place != nil && e.kind == exclusive {
		a.ownPlace = keyVersion{place.key, place.modified}
	}
	if lease != e.lease {
		todo.ops = append(todo.ops, putKey(e.key, e.value, lease))
		a.entry.modified = 0
		if a.ownPlace.key != "" {
			todo.requireEntry(place)
			todo.ops = append(todo.ops, putKey(place.key, place.value, lease))
			a.ownPlace.modified = 0
		}
	}
	return todo, nil
}

// leaseFor returns the lease that the hold e of the caller gets, and sets a.end to its end. It is
// the present one if that lasts long enough, and never one that ends earlier.
func (a *attempt) leaseFor(ctx context.Context, e *entry) (clientv3.LeaseID, error) {
	long := a.sent.Add(a.r.TTL)
	if h := a.s.holds.find(a.r.Name, a.id); h != nil && !h.strange.Load() && h.modified.Load() == e.modified {
		if a.end = h.endsAt(); a.end >= long {
			return e.lease, nil
		}
		a.end = a.lease.end
		return a.lease.id, nil
	}
	now := a.s.cfg.clock.Now()
	left, err := a.s.conn.timeLeft(ctx, e.lease)
	if err != nil {
		return 0, err
	}
	if a.end = now.Add(left); a.end >= long {
		a.strange = true
		return e.lease, nil
	}
	l := a.lease
	if latest := a.end.Add(time.Second); l.end < latest { // timeLeft rounds down
		if l, err = a.s.leases.forHold(ctx, latest.Sub(now)); err != nil {
			return 0, err
		}
	}
	a.end = l.end
	return l.id, nil
}

// replace returns the change that hands a hold over to the caller's token. The hold keeps its key
// and gets a new fence.
func (a *attempt) replace(st *state) (*change, error) {
	old := idOf(a.r.Replaces.Text())
	e := st.liveHold(old)
	if e == nil {
		return nil, driver.ErrLost
	}
	fence, err := nextFence(st.fence, a.r.FenceAbove)
	if err != nil {
		return nil, err
	}
	var todo change
	todo.requireEntry(e)
	st.deleteOthers(&todo, old)
	a.addHold(&todo, e.kind, e.key, fence)
	todo.ops = append(todo.ops, putFence(&a.keys, fence, a.keeper))
	return &todo, nil
}

// grant remembers the hold and returns it to the caller.
func (a *attempt) grant() driver.Grant {
	if !a.granted {
		return driver.Grant{}
	}
	h := &hold{name: a.r.Name, id: a.id, key: a.entry.key, fence: a.entry.Fence, reader: a.entry.kind == shared,
		ownPlace: a.ownPlace, since: a.sent, seen: a.sent, end: a.end, extended: a.sent}
	h.modified.Store(a.entry.modified)
	h.strange.Store(a.strange)
	a.s.holds.remember(h)
	return driver.Grant{Fence: h.fence, TTL: h.end.Sub(a.sent), Shared: h.reader}
}
