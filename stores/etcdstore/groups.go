package etcdstore

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A group is a lease of etcd that several holds share, so that one request renews them all. A hold
// becomes a member of a group when it is first extended.
//
// A member is late if its last Extend was longer ago than two fifths of the lease. If a member is
// late, the store does not renew the lease. Instead, the store makes a new lease and moves the
// other members to the new lease. When the old lease ends, the server deletes the holds of the late
// members.
//
//	event                          what happens to the lease and the members
//	Extend just after a renewal    nothing; the Grant counts from that renewal
//	Extend when no member is late  the store renews the lease and compares the keys of all members
//	Extend when a member is late   the members that are not late move to a new lease
//	a key has another lease        its hold leaves the group, and joins one whose lease ends later
//	Extend when the lease is gone  the group is dissolved; each member finds out about its own key
//	Release                        the hold leaves the group
type group struct {
	length int64         // of the lease, in seconds
	turn   chan struct{} // held while the group makes a request

	mu      sync.Mutex
	lease   lease
	members map[*hold]bool // the value is true if the hold's key has the lease
}

// groups holds the groups of one store.
type groups struct {
	*leases
	mu  sync.Mutex
	all map[int64][]*group // by the length of the lease
}

const (
	// maxMembers is how many holds share a lease.
	maxMembers = 480
	// maxKeys is how many keys are compared or moved in one transaction, which by default has at
	// most 128 operations.
	maxKeys = 120
)

func newGroups(l *leases) *groups { return &groups{leases: l, all: make(map[int64][]*group)} }

// After each renewal, the lease of a group counts as just renewed for a while, and Extend does not
// renew it again. freshFor returns how long that is: a tenth of the length of the lease.
func freshFor(length int64) time.Duration { return time.Duration(length) * time.Second / 10 }

// join adds a hold to a group that is not full and whose lease was just renewed. The lease of the
// group must not end before the present lease of the hold. If there is no such group, join makes a
// new one.
func (g *groups) join(ctx context.Context, h *hold, length int64) (*group, error) {
	if n := g.enter(h, length); n != nil {
		return n, nil
	}
	if err := storekit.Await(ctx, g.turn); err != nil {
		return nil, failure(ctx, err, false)
	}
	defer func() { <-g.turn }()
	if n := g.enter(h, length); n != nil {
		return n, nil
	}
	l, err := g.grant(ctx, length)
	if err != nil {
		return nil, err
	}
	// The hold joins the new group even if the server took long to answer. (enter adds holds only
	// to a group with a fresh lease.)
	n := &group{length: length, turn: make(chan struct{}, 1), lease: *l, members: map[*hold]bool{h: false}}
	h.setGroup(n)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[length] = append(g.all[length], n)
	return n, nil
}

// enter looks for a group that the hold can join. It adds the hold to the group and returns the
// group. If there is no such group, it returns nil. It also drops older groups without members.
func (g *groups) enter(h *hold, length int64) (in *group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, ends := g.clock.Now(), h.mayEndAt()
	var left []*group
	for _, n := range g.all[length] {
		n.mu.Lock()
		young := now.Sub(n.lease.from) <= freshFor(length)
		if in == nil && young && len(n.members) < maxMembers && n.lease.end >= ends {
			in = n
			n.members[h] = false
			h.setGroup(n)
		}
		if young || len(n.members) > 0 {
			left = append(left, n)
		}
		n.mu.Unlock()
	}
	g.all[length] = left
	return in
}

// extend makes sure that the lease of a member has its whole length left. If the lease was just
// renewed, a little less is enough; see freshFor.
func (g *group) extend(ctx context.Context, s *leases, h *hold) error {
	if err := storekit.Await(ctx, g.turn); err != nil {
		return failure(ctx, err, false)
	}
	defer func() { <-g.turn }()
	now := s.clock.Now()
	current, late := g.census(now)
	switch {
	case now.Sub(g.lease.from) > freshFor(g.length) && late:
		return g.moveOn(ctx, s, current)
	case now.Sub(g.lease.from) > freshFor(g.length):
		if err := g.renew(ctx, s, current); err != nil {
			return err
		}
	}
	if g.isIn(h) {
		return nil
	}
	return g.moveIn(ctx, s.conn)
}

func (g *group) isIn(h *hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[h]
}

// census returns the members that were extended in time, and reports whether other members are
// late. It ignores new members whose keys do not have the lease yet.
func (g *group) census(now driver.Instant) (current []*hold, anyLate bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h, in := range g.members {
		h.mu.Lock()
		since := now.Sub(h.extended)
		h.mu.Unlock()
		switch {
		case since > time.Duration(g.length)*time.Second*2/5:
			anyLate = anyLate || in
		case in:
			current = append(current, h)
		}
	}
	return current, anyLate
}

// renew renews the lease, and then checks the keys of all members. A member whose key was changed
// by others leaves the group.
func (g *group) renew(ctx context.Context, s *leases, current []*hold) error {
	l, err := s.renew(ctx, g.lease.id)
	if isLeaseGone(err) {
		g.dissolve()
		return nil
	}
	if err != nil {
		return err
	}
	stay, err := s.conn.checkAll(ctx, current, g.lease.id)
	if err != nil {
		return err
	}
	g.setLease(*l, stay, current)
	return nil
}

// moveOn makes a new lease for the group. Late members keep the old lease and leave the group. The
// other members get the new lease.
func (g *group) moveOn(ctx context.Context, s *leases, current []*hold) error {
	l, err := s.grant(ctx, g.length)
	if isNoSpace(err) { // keeping a hold for too long is better than losing one
		return g.renew(ctx, s, current)
	}
	if err != nil {
		return err
	}
	moved, err := s.conn.moveAll(ctx, current, l)
	if err != nil {
		return err
	}
	g.mu.Lock()
	for h, in := range g.members {
		if in {
			delete(g.members, h)
			h.clearGroup()
		}
	}
	for _, h := range moved {
		g.members[h] = true
		h.setGroup(g)
	}
	g.mu.Unlock()
	g.setLease(*l, moved, current)
	return nil
}

// moveIn moves the keys of new members to the lease of the group.
func (g *group) moveIn(ctx context.Context, c *connection) error {
	g.mu.Lock()
	var joining []*hold
	for h, in := range g.members {
		if !in {
			joining = append(joining, h)
		}
	}
	l := g.lease
	g.mu.Unlock()
	moved, err := c.moveAll(ctx, joining, &l)
	if err != nil {
		return err
	}
	g.mu.Lock()
	for _, h := range moved {
		if _, still := g.members[h]; still { // the hold was not released meanwhile
			g.members[h] = true
			h.setGroup(g)
		}
	}
	g.mu.Unlock()
	g.setLease(l, moved, joining)
	return nil
}

// setLease records the lease l of the group. The holds in onLease have this lease now. All other
// candidates leave the group.
func (g *group) setLease(l lease, onLease, candidates []*hold) {
	g.mu.Lock()
	g.lease = l
	g.mu.Unlock()
	has := make(map[*hold]bool, len(onLease))
	for _, h := range onLease {
		has[h] = true
		h.setLease(&l)
	}
	for _, h := range candidates {
		if !has[h] {
			h.leaveGroup()
		}
	}
}

// dissolve removes all members. No hold joins the group after that.
func (g *group) dissolve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.members {
		h.clearGroup()
	}
	clear(g.members)
	g.lease.from -= driver.Instant(time.Hour) // nobody joins any more
}

// setGroup and clearGroup set the group of a hold. Their caller must hold the group's mutex, unless
// nobody else knows the group yet.
func (h *hold) setGroup(g *group) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group = g
}

func (h *hold) clearGroup() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.group = nil
}

// checkAll returns the holds whose keys exist and have not been changed by somebody else. A key
// that does not have the lease wantLease counts as changed.
func (c *connection) checkAll(ctx context.Context, all []*hold, wantLease clientv3.LeaseID) ([]*hold, error) {
	return c.inChunks(ctx, all, wantLease, nil)
}

// moveAll moves the keys of holds to a lease, with unchanged values. It returns the holds that it
// has moved. A hold that another store has moved meanwhile stays where it is, because its lease may
// end later.
func (c *connection) moveAll(ctx context.Context, all []*hold, newLease *lease) ([]*hold, error) {
	return c.inChunks(ctx, all, 0, newLease)
}

func (c *connection) inChunks(ctx context.Context, all []*hold, wantLease clientv3.LeaseID, newLease *lease) (ok []*hold, err error) {
	for some := range slices.Chunk(all, maxKeys) {
		some, err = c.checkSome(ctx, some, wantLease, newLease)
		if err != nil {
			return nil, err
		}
		ok = append(ok, some...)
	}
	return ok, nil
}

// checkSome checks the keys of holds in one transaction. If newLease is not nil, the transaction
// also moves the keys to that lease. If some keys are gone or changed, checkSome repeats the
// transaction for the other holds. It returns the holds whose keys are as they should be.
func (c *connection) checkSome(ctx context.Context, all []*hold, wantLease clientv3.LeaseID, newLease *lease) ([]*hold, error) {
	for all = newest(all); len(all) > 0; {
		var conds []*pb.Compare
		var moves, reads []*pb.RequestOp
		for _, h := range all {
			conds = append(conds, writtenAt(h.key, h.modified.Load()))
			reads = append(reads, getKeys(h.key, ""))
			if newLease != nil {
				moves = append(moves, putLease(h.key, newLease.id))
			}
		}
		reply, err := c.commit(ctx, conds, moves, reads)
		if err != nil {
			return nil, err
		}
		if reply.Succeeded {
			if newLease != nil {
				for _, h := range all {
					h.wroteAt(reply.Header.Revision)
				}
			}
			return all, nil
		}
		var existing []*hold
		for i, h := range all {
			for _, kv := range reply.Responses[i].GetResponseRange().Kvs {
				switch {
				case !h.isValue(string(kv.Value)):
				case newLease == nil && clientv3.LeaseID(kv.Lease) != wantLease, newLease != nil && kv.ModRevision != h.modified.Load():
					h.strange.Store(true)
				default:
					h.wroteAt(kv.ModRevision)
					existing = append(existing, h)
				}
			}
		}
		all = existing
	}
	return nil, nil
}

// newest drops each hold whose key now belongs to a later hold of this store. Such a hold was lost,
// for example by Break, and the store has not noticed the loss yet. The hold has to be dropped
// because a transaction must not write the same key twice.
func newest(all []*hold) (out []*hold) {
	last := make(map[string]*hold, len(all))
	for _, h := range all {
		if o := last[h.key]; o == nil || o.modified.Load() < h.modified.Load() {
			last[h.key] = h
		}
	}
	for _, h := range all {
		if last[h.key] == h {
			out = append(out, h)
		}
	}
	return out
}
