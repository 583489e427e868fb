package etcdstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
)

// A Release passes the name on to the next waiter in the transaction that ends the hold. The waiter
// watches the place of the hold that is released, and reads there that it has the name now. So a
// hand-over is one transaction and one event.
//
//	step        what it does
//	claim       the first waiter takes the name, and reads the waiters after it
//	Release     ends the hold, and makes one for the next waiter with the lease of that waiter's
//	            place in the queue; the place of the released hold tells it the fence, and the
//	            waiters after it
//	the waiter  has the name until that lease may end, about 2 s; the waiter sends no request
//	Extend      gives the hold its full lease, and deletes the old hold's place; if nobody
//	            extends or releases the hold, the store does that
//
// If the process of the next waiter has died or was stopped, it does not renew the lease of its
// places. So the name becomes free just as early as if the waiter had died in the queue.
//
// If a comparison in that transaction fails, the Release only ends the hold, and the next waiter
// claims the name. That happens after every maxNext hand-overs, if the next waiter has gone, and if
// the next waiter wants a shared lock, a fence above a certain one, or an at-least time.

// maxNext is how many waiters a claim reads.
const maxNext = 32

// waiterAt is a place in the queue.
type waiterAt struct {
	id      string
	created int64
	lease   clientv3.LeaseID
}

// listNext returns the operation that reads the waiters. nextOf takes its result.
func (p *place) listNext() clientv3.Op {
	first, last := p.queue()
	return clientv3.OpGet(first, clientv3.WithRange(last), clientv3.WithLimit(maxNext+1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// nextOf returns the waiters after a place, up to the first one that a Release cannot serve.
func nextOf(dir string, kvs []*mvccpb.KeyValue, after int64) (next []waiterAt) {
	for _, kv := range kvs {
		e, ok := entryOf(dir, kv)
		if !ok || e.created <= after {
			continue
		}
		if e.Shared || e.Alone || e.To != "" {
			break
		}
		next = append(next, waiterAt{e.id, e.created, e.lease})
	}
	return next
}

func nextText(next []waiterAt) string {
	var b strings.Builder
	for _, w := range next {
		b.WriteString(w.id + " " + strconv.FormatInt(w.created, 10) + " " + strconv.FormatInt(int64(w.lease), 10) + ";")
	}
	return b.String()
}

func readNext(text string) (next []waiterAt) {
	for part := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(part)
		if len(fields) != 3 {
			return next
		}
		created, err1 := strconv.ParseInt(fields[1], 10, 64)
		lease, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 != nil || err2 != nil {
			return next
		}
		next = append(next, waiterAt{fields[0], created, clientv3.LeaseID(lease)})
	}
	return next
}

// passOn ends a hold and passes the name on to the next waiter. If it returns false without an
// error, nothing was changed.
func (s *Store) passOn(ctx context.Context, p place, h *hold) (bool, error) {
	fence, err := mint(h.fencing(), 0)
	if err != nil {
		return false, nil //nolint:nilerr // the next holder reports it
	}
	keeper, err := s.leases.forFence(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the deletion of the hold reports it, or works
	}
	to := h.next[0]
	own, place, key := p.key(waiting, h.id), p.key(waiting, to.id), p.key(exclusive, to.id)
	told := record{Fence: fence, To: to.id, Next: nextText(h.next[1:])}
	grant := record{Fence: fence, Since: time.Now().UnixMicro()}
	from, end := p.taken(false)
	conds := []clientv3.Cmp{
		still(h.key, h.created), empty(from, h.key), empty(h.key+"\x00", end),
		clientv3.Compare(clientv3.CreateRevision(own), ">", 0),
		still(place, to.created), clientv3.Compare(clientv3.LeaseValue(place), "=", to.lease),
		clientv3.Compare(clientv3.Value(p.fence), "<", fenceText(fence)),
	}
	todo := []clientv3.Op{
		clientv3.OpDelete(h.key), put(own, told.text(), to.lease), put(key, grant.text(), to.lease),
		putFence(p, fence, keeper),
	}
	if h.from != "" {
		todo = append(todo, clientv3.OpDelete(h.from))
	}
	reply, err := s.conn.commit(ctx, conds, todo, nil)
	switch {
	case isLeaseGone(err), isNoSpace(err):
		return false, nil
	case err != nil:
		return false, failure(ctx, err, true)
	}
	return reply.Succeeded, nil
}

// passed returns the hold that a Release made for a waiter, if the event tells of one. l is the
// lease of the places of this store.
func passed(p *place, r *driver.Request, id string, e *clientv3.Event, l *lease) *hold {
	told, ok := entryOf(p.dir, e.Kv)
	if !ok || e.Type != mvccpb.Event_PUT || told.To != id || l == nil || l.id != told.lease {
		return nil
	}
	return &hold{
		name: r.Name, id: id, key: p.key(exclusive, id), created: e.Kv.ModRevision, fence: told.Fence,
		placed: true, next: readNext(told.Next), from: told.key, brief: r,
		since: l.from, checked: l.from, renewed: l.from, end: l.end(),
	}
}

// leastPassed is how long a hold that was passed on must last, so that the caller can use the hold
// before it gets its full lease. If less time is left, the waiter asks for the full lease first.
const leastPassed = driver.MaxReservation + 500*time.Millisecond

// handOver remembers a hold that was passed on and returns it. If nobody extends or releases the
// hold soon, the store gives it its full lease.
func (s *Store) handOver(h *hold) driver.Grant {
	soon := h.end.Sub(s.cfg.clock.Now()) - leastPassed/2
	h.stop = s.cfg.clock.AfterFunc(soon, func() { s.complete(h) })
	s.holds.put(h)
	return driver.Grant{Fence: h.fence, TTL: h.end.Sub(h.since), From: h.since}
}

// complete gives a hold that was passed on its full lease, unless that was done already.
func (s *Store) complete(h *hold) {
	if s.begin(s.line.ctx) != nil {
		return
	}
	defer s.work.Done()
	for s.holds.get(h.name, h.id) == h && s.line.ctx.Err() == nil {
		ctx, cancel := limit(s.line.ctx)
		_, err := s.fullLease(ctx, *h.brief)
		cancel()
		if !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
			return
		}
		pause(s.line.ctx, 100*time.Millisecond)
	}
}

// fullLease gives the hold of r a lease of its own.
func (s *Store) fullLease(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return s.withLeases(ctx, &r, func(a *attempt) error {
		st, err := s.conn.read(ctx, a.place, r.Name)
		if err != nil {
			return err
		}
		return a.apply(ctx, st, func(st *state) (*change, error) {
			if e := st.hold(a.id); e != nil {
				return a.keep(st, e), nil
			}
			return nil, a.lost(st)
		})
	})
}
