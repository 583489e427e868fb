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
	// guard is the lease of the cool-down that keeps the name taken for Request.AtLeast. It is 0 if
	// the request has no AtLeast.
	guard clientv3.LeaseID

	entry    entry // the key of the hold, if granted is true
	granted  bool
	ownPlace keyVersion // the place in the queue that the hold keeps, or zero
	next     string     // the waiters behind ownPlace; see waitersBehind
	revision int64      // of the last change
	since    time.Time
}

// Acquire implements driver.Store. If the name is free, Acquire usually sends one transaction.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.beginCall(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.work.Done()
	ctx, cancel := s.conn.limits.limit(ctx)
	defer cancel()
	return s.withLeases(ctx, &r, func(a *attempt) error {
		if r.Replaces == "" {
			return a.takeFree(ctx)
		}
		st, err := s.conn.readState(ctx, a.keys, r.Name)
		if err != nil {
			return err
		}
		return a.apply(ctx, st, a.acquireChange)
	})
}

// withLeases calls try with an attempt that has the leases it needs. Usually the store has these
// leases already. If the server has lost one of them, withLeases gets new leases and calls try
// again.
func (s *Store) withLeases(ctx context.Context, r *driver.Request, try func(*attempt) error) (driver.Grant, error) {
	for tries := 0; ; tries++ {
		a := &attempt{s: s, keys: s.cfg.keysOf(r.Name), r: r, id: idOf(r.Token)}
		err := a.prepare(ctx)
		if err == nil {
			err = try(a)
		}
		switch {
		case isLeaseGone(err) && tries < 3:
			s.leases.forget()
		case isLeaseGone(err):
			return driver.Grant{}, unavailable("the server does not keep a lease that it made")
		case err != nil:
			return driver.Grant{}, err
		default:
			return a.grant(), nil
		}
	}
}

// prepare gets the leases of the attempt.
func (a *attempt) prepare(ctx context.Context) (err error) {
	l := a.s.leases
	a.sent, a.since = a.s.cfg.clock.Now(), time.Now()
	if a.lease, err = l.forHold(ctx, max(a.r.TTL, a.r.AtLeast)); err != nil {
		return failure(ctx, err, false)
	}
	if a.keeper, err = l.forFence(ctx); err != nil {
		return failure(ctx, err, false)
	}
	if a.r.AtLeast > 0 {
		guard, err := l.grant(ctx, seconds(a.r.AtLeast))
		if err != nil {
			return failure(ctx, err, false)
		}
		a.guard = guard.id
	}
	return nil
}

func (a *attempt) kind() kind {
	if a.r.Shared {
		return shared
	}
	return exclusive
}

// addHold adds the operations that make a hold with the given key.
func (a *attempt) addHold(todo *change, k kind, key string, fence uint64) {
	a.granted = true
	a.entry = entry{kind: k, key: key, lease: a.lease.id,
		record: record{Fence: fence, ID: a.id, Since: a.since.UnixMicro(), Holder: a.r.Holder}}
	todo.addOps(putKey(a.entry.key, a.s.holders.holdText(&a.entry.record), a.lease.id))
	a.atLeast(todo, k)
}

// atLeast does what Request.AtLeast asks for: the name stays taken for that time, even if its hold
// is released earlier. For this, atLeast adds an operation that writes the key of a cool-down, with
// a lease of that length.
func (a *attempt) atLeast(todo *change, k kind) {
	if a.guard != 0 {
		guard := record{Follows: a.id, Holder: a.r.Holder}
		todo.addOps(putKey(a.keys.key(coolingOf(k), leaseID(a.guard)), guard.text(), a.guard))
	}
}

// addFence adds the operation that stores a fence.
func (a *attempt) addFence(todo *change, fence uint64) {
	todo.addOps(putFence(&a.keys, fence, a.keeper))
}

// takeFree takes the name in one transaction. The transaction succeeds if the name has no keys,
// except for a stored fence that is smaller than the new fence. Otherwise takeFree reads the state
// and goes on like other attempts; see acquireChange.
func (a *attempt) takeFree(ctx context.Context) error {
	fence, err := nextFence(0, a.r.FenceAbove)
	if err != nil {
		return err
	}
	key := a.keys.key(exclusive, "")
	if a.r.Shared {
		key = a.keys.key(shared, ownPart(a.s.id, 0))
	}
	var todo change
	a.addHold(&todo, a.kind(), key, fence)
	a.addFence(&todo, fence)
	// If the name has no stored fence, the comparison valueBelow is false. So for a name that may
	// be new, a nested transaction checks that there is no fence, and then takes the name.
	free, otherwise := noKeys(a.keys.dir, a.keys.end()), a.keys.reads()[:1]
	if !a.s.holds.wasHeld(a.r.Name) {
		otherwise = []*pb.RequestOp{nested([]*pb.Compare{free, noKey(a.keys.fence)}, todo.ops, a.keys.reads())}
	}
	reply, err := a.s.conn.commit(ctx, []*pb.Compare{free, valueBelow(a.keys.fence, fenceText(fence))}, todo.ops, otherwise)
	switch {
	case isLeaseGone(err):
		return err
	case err != nil:
		return failure(ctx, err, true)
	case reply.Succeeded || reply.Responses[0].GetResponseTxn().GetSucceeded():
		a.entry.modified = reply.Header.Revision
		return nil
	}
	st := stateOf(a.keys, a.r.Name, reply)
	// A grant needs the stored fence. If the transaction above has not read it, read the state
	// again.
	if !a.isRefused(st) {
		if st, err = a.s.conn.readState(ctx, a.keys, a.r.Name); err != nil {
			return err
		}
	}
	return a.apply(ctx, st, a.acquireChange)
}

// isRefused reports whether the caller has no hold and cannot be granted one now.
func (a *attempt) isRefused(st *state) bool {
	return st.liveHold(a.id) == nil && (st.excluded(a.id, a.r.Shared) || st.waiterAhead(0, a.r.Shared) != nil)
}

// apply carries out the change that makeChange returns, and records the result in the attempt.
func (a *attempt) apply(ctx context.Context, st *state, makeChange func(*state) (*change, error)) error {
	revision, err := a.s.conn.applyChange(ctx, st, func(st *state) (*change, error) {
		a.granted, a.ownPlace, a.next, a.entry = false, keyVersion{}, "", entry{} // forget an earlier decision, which was not carried out
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
func (a *attempt) acquireChange(st *state) (*change, error) {
	if e := st.liveHold(a.id); e != nil {
		return a.keepHold(st, e), nil
	}
	if a.r.Replaces != "" {
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
	var todo change
	fence := st.fence
	if !a.r.Shared || !st.reading() || a.r.FenceAbove >= fence {
		var err error
		if fence, err = nextFence(st.fence, a.r.FenceAbove); err != nil {
			return nil, err
		}
		a.addFence(&todo, fence)
	}
	key := st.key(exclusive, "")
	if a.r.Shared {
		key = st.freeKey(shared, a.s.id)
	}
	a.addHold(&todo, a.kind(), key, fence)
	return &todo, nil
}

// keepHold returns the change for a token that has the hold e already. The change gives the hold a
// full lease, unless the hold's lease lasts long enough. If the previous holder's Release passed
// the name on to this hold, the change also deletes the place in the queue that the previous hold
// kept.
func (a *attempt) keepHold(st *state, e *entry) *change {
	a.entry, a.granted = *e, true
	todo := &change{}
	todo.requireEntry(e)
	h := a.s.holds.find(a.r.Name, a.id)
	place := st.find(waiting, e.ID)
	if place != nil && e.kind == exclusive {
		a.ownPlace = keyVersion{place.key, place.modified}
	}
	if h == nil || h.lastWrite() != e.modified || h.endsAt() < a.sent.Add(max(a.r.TTL, a.r.AtLeast)) {
		todo.addOps(putKey(e.key, e.value, a.lease.id))
		a.entry.lease, a.entry.modified = a.lease.id, 0
		if a.ownPlace.key != "" {
			todo.requireEntry(place)
			todo.addOps(putKey(place.key, place.value, a.lease.id))
			a.ownPlace.modified = 0
		}
	}
	for i := range st.entries {
		if told := &st.entries[i]; told.PassedTo == e.ID {
			todo.addOps(deleteKey(told.key))
		}
	}
	a.atLeast(todo, e.kind)
	return todo
}

// replace returns the change that hands a hold over to the caller's token. The hold keeps its key
// and gets a new fence.
func (a *attempt) replace(st *state) (*change, error) {
	old := idOf(a.r.Replaces)
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
	a.addFence(&todo, fence)
	for i := range st.entries {
		if g := &st.entries[i]; g.Follows == old {
			g.Follows = a.id
			todo.addOps(putKey(g.key, g.text(), g.lease))
		}
	}
	return &todo, nil
}

// grant remembers the hold and returns it to the caller.
func (a *attempt) grant() driver.Grant {
	if !a.granted {
		return driver.Grant{}
	}
	e, now := &a.entry, a.s.cfg.clock.Now()
	h := &hold{name: a.r.Name, id: a.id, key: e.key, modified: e.modified, fence: e.Fence, reader: e.kind == shared,
		ownPlace: a.ownPlace, next: a.next, since: a.sent, seen: a.sent, extended: now}
	old := a.s.holds.find(a.r.Name, a.id)
	// Release can pass the name on only if the hold has a place in the queue and no AtLeast. Only
	// then does the hold need the list of waiters. A reader's hold has no place.
	if old != nil && old.fencing() == h.fence && a.guard == 0 && h.ownPlace.key != "" {
		h.next = old.next
	}
	if e.lease == a.lease.id {
		h.end = a.lease.endTime()
	} else if old != nil {
		h.end = old.endsAt()
	}
	a.s.holds.remember(h)
	return driver.Grant{Fence: e.Fence, TTL: h.end.Sub(a.sent), Shared: a.r.Replaces != "" && h.reader}
}
