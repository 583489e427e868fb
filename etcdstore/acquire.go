package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// attempt is one try of Acquire, Wait or Convert.
type attempt struct {
	s      *Store
	place  place
	r      *driver.Request
	id     string
	sent   driver.Instant
	lease  *lease
	keeper clientv3.LeaseID // the lease of the fence
	guard  clientv3.LeaseID // the lease of the at-least time, or 0

	entry    entry // the hold, if the last change makes or keeps one
	granted  bool
	placed   bool       // the hold keeps its place in the queue
	next     []waiterAt // the waiters after it
	revision int64      // of the last change
	since    time.Time
}

// Acquire implements driver.Store. On a free name it makes one transaction.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.work.Done()
	ctx, cancel := limit(ctx)
	defer cancel()
	return s.withLeases(ctx, &r, func(a *attempt) error {
		if r.Replaces == "" {
			return a.takeFree(ctx)
		}
		st, err := s.conn.read(ctx, a.place, r.Name)
		if err != nil {
			return err
		}
		return a.apply(ctx, st, a.decide)
	})
}

// withLeases makes an attempt with the leases that the store remembers. It repeats the attempt if
// the server does not have one of them any more.
func (s *Store) withLeases(ctx context.Context, r *driver.Request, try func(*attempt) error) (driver.Grant, error) {
	for tries := 0; ; tries++ {
		a := &attempt{s: s, place: s.cfg.place(r.Name), r: r, id: idOf(r.Token)}
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

// hold adds the operations that make a hold.
func (a *attempt) hold(todo *change, k kind, fence uint64) {
	a.granted = true
	a.entry = entry{kind: k, id: a.id, key: a.place.key(k, a.id), lease: a.lease.id,
		record: record{Fence: fence, Since: a.since.UnixMicro(), Holder: a.r.Holder}}
	todo.do(put(a.entry.key, a.entry.text(), a.lease.id))
	a.atLeast(todo, k)
}

// atLeast adds the operation that keeps the name taken after an early Release.
func (a *attempt) atLeast(todo *change, k kind) {
	if a.guard != 0 {
		guard := record{Of: a.id, Holder: a.r.Holder}
		todo.do(put(a.place.key(coolingOf(k), leaseID(a.guard)), guard.text(), a.guard))
	}
}

// raise adds the operation that stores a fence.
func (a *attempt) raise(todo *change, fence uint64) { todo.do(putFence(a.place, fence, a.keeper)) }

// takeFree takes a name for which the server has no keys. Only the key of a smaller fence may
// exist.
func (a *attempt) takeFree(ctx context.Context) error {
	fence, err := mint(0, a.r.FenceAbove)
	if err != nil {
		return err
	}
	var todo change
	a.hold(&todo, a.kind(), fence)
	a.raise(&todo, fence)
	free, otherwise := empty(a.place.dir, a.place.end()), a.place.reads()
	if !a.s.holds.used(a.r.Name) { // etcd's "<" is false for a fence that does not exist yet
		never := []clientv3.Cmp{free, clientv3.Compare(clientv3.Version(a.place.fence), "=", 0)}
		otherwise = []clientv3.Op{clientv3.OpTxn(never, todo.ops, otherwise)}
	}
	reply, err := a.s.conn.commit(ctx,
		[]clientv3.Cmp{free, clientv3.Compare(clientv3.Value(a.place.fence), "<", fenceText(fence))}, todo.ops, otherwise)
	switch {
	case isLeaseGone(err):
		return err
	case err != nil:
		return failure(ctx, err, true)
	case reply.Succeeded || len(reply.Responses) == 1 && reply.Responses[0].GetResponseTxn().Succeeded:
		a.entry.created = reply.Header.Revision
		return nil
	}
	return a.apply(ctx, stateOf(a.place, a.r.Name, reply), a.decide)
}

// apply makes the change that decide returns.
func (a *attempt) apply(ctx context.Context, st *state, decide func(*state) (*change, error)) error {
	revision, err := a.s.conn.change(ctx, st, func(st *state) (*change, error) {
		a.granted, a.placed, a.next, a.entry = false, false, nil, entry{} // an earlier decision was not carried out
		return decide(st)
	})
	a.revision = revision
	if err == nil && a.granted && a.entry.created == 0 {
		a.entry.created = revision
	}
	if held, ok := err.(*driver.HeldError); ok {
		a.s.untils(ctx, held)
	}
	return err
}

// decide returns the change that Acquire makes.
func (a *attempt) decide(st *state) (*change, error) {
	if e := st.hold(a.id); e != nil {
		return a.keep(st, e), nil
	}
	if a.r.Replaces != "" {
		return a.replace(st)
	}
	if st.excluded(a.id, a.r.Shared) || st.ahead(0, a.r.Shared) != nil {
		return nil, st.heldError(a.id, a.r.Shared)
	}
	return a.take(st)
}

// take grants a name that is free for the caller. Readers that hold the name together have the same
// fence.
func (a *attempt) take(st *state) (*change, error) {
	var todo change
	fence := st.fence
	if !a.r.Shared || !st.reading() || a.r.FenceAbove >= fence {
		var err error
		if fence, err = mint(st.fence, a.r.FenceAbove); err != nil {
			return nil, err
		}
		a.raise(&todo, fence)
	}
	a.hold(&todo, a.kind(), fence)
	return &todo, nil
}

// keep gives a live hold a full lease, unless the present lease of the hold lasts longer. If the
// name was passed on to the hold, keep also deletes the key that told of it.
func (a *attempt) keep(st *state, e *entry) *change {
	a.entry, a.granted = *e, true
	todo := &change{}
	todo.still(e)
	h := a.s.holds.get(a.r.Name, a.id)
	if h == nil || h.created != e.created || h.endsAt() < a.sent.Add(max(a.r.TTL, a.r.AtLeast)) {
		todo.do(put(e.key, e.value, a.lease.id))
		a.entry.lease = a.lease.id
		if place := st.find(waiting, e.id); place != nil && place.To == "" && e.kind == exclusive {
			todo.still(place)
			todo.do(put(place.key, place.value, a.lease.id))
		}
	}
	for i := range st.entries {
		if told := &st.entries[i]; told.To == e.id {
			todo.do(clientv3.OpDelete(told.key))
		}
	}
	a.atLeast(todo, e.kind)
	return todo
}

// replace hands a hold over to another token.
func (a *attempt) replace(st *state) (*change, error) {
	old := idOf(a.r.Replaces)
	e := st.hold(old)
	if e == nil {
		return nil, driver.ErrLost
	}
	fence, err := mint(st.fence, a.r.FenceAbove)
	if err != nil {
		return nil, err
	}
	var todo change
	todo.still(e)
	todo.do(clientv3.OpDelete(e.key), clientv3.OpDelete(st.key(intending, old)), clientv3.OpDelete(st.key(waiting, old)))
	a.hold(&todo, e.kind, fence)
	a.raise(&todo, fence)
	for i := range st.entries {
		if g := &st.entries[i]; g.Of == old {
			g.Of = a.id
			todo.do(put(g.key, g.text(), g.lease))
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
	h := &hold{name: a.r.Name, id: a.id, key: e.key, created: e.created, fence: e.Fence, reader: e.kind == shared, since: a.sent, checked: a.sent, asked: now}
	old := a.s.holds.get(a.r.Name, a.id)
	h.placed, h.next = a.placed || old != nil && old.placed, a.next
	if old != nil && old.created == h.created {
		h.next = old.next
	}
	if e.lease == a.lease.id {
		h.end = a.lease.end()
	} else if old != nil {
		h.end = old.endsAt()
	}
	a.s.holds.put(h)
	return driver.Grant{Fence: e.Fence, TTL: h.end.Sub(a.sent), Shared: a.r.Replaces != "" && h.reader}
}
