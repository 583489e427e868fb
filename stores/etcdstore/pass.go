package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A Release ends its hold and passes the name on to the next waiter, in one transaction. A hold
// that came from the queue keeps its place in the queue, and the next waiter watches this place.
// The Release writes into this place, and so tells the waiter that it has the name. A hand-over
// costs one transaction and one event.
//
//	step        what it does
//	claim       the first waiter takes the name, and reads the waiters behind it
//	Release     ends the old hold, and makes a hold for the next waiter; writes the new fence and
//	            the remaining waiters into the old hold's place
//	the waiter  returns the hold to its caller; sends no request
//	Extend      gives the new hold its full lease, and deletes the old hold's place; if the caller
//	            does not extend or release the new hold soon, the store does this by itself
//
// The Release gives the new hold the lease that the waiter's own place in the queue has. This lease
// lasts about 2 s. If the waiter's process has died or is stopped, nobody renews the lease. The
// server then deletes the waiter's place and the new hold at the same time.
//
// In these cases a Release only ends the hold, and the next waiter claims the name:
//
//   - The list of waiters is used up. That happens after maxNext hand-overs.
//   - The next waiter has left the queue.
//   - The next waiter wants a shared lock, or its request has FenceAbove or AtLeast.

// maxNext is the maximum length of the list of waiters. When a waiter claims the name, its
// transaction reads this list. Each Release after that takes the next waiter from the list.
const maxNext = 32

// A waiterAt is a waiter and its place in the queue.
type waiterAt struct {
	part, id string
	modified int64
	lease    clientv3.LeaseID
}

// listNext returns the operation that reads the first waiters of the queue. waitersBehind decodes
// its result.
func (p *nameKeys) listNext() *pb.RequestOp {
	first, last := p.queue()
	list := getKeys(first, last)
	r := list.GetRequestRange()
	r.Limit, r.SortTarget, r.SortOrder = maxNext+1, pb.RangeRequest_CREATE, pb.RangeRequest_ASCEND
	return list
}

// waitersBehind makes the list of the waiters behind a place in the queue, as a text. Each Release
// grants the name to the first waiter of the list, and passes the rest of the list on to that
// waiter. A Release cannot grant some requests, such as those for a shared lock. The list ends
// before the first waiter with such a request.
func waitersBehind(dir string, kvs []*mvccpb.KeyValue, afterRevision int64) string {
	var b strings.Builder
	for _, kv := range kvs {
		e, ok := entryOf(dir, kv)
		if !ok || e.created <= afterRevision {
			continue
		}
		text := e.part + e.ID
		if e.Shared || e.Alone || e.PassedTo != "" || keyNames.Escape(text) != text { // handOverText does not quote its arguments
			break
		}
		b.WriteString(e.part + " " + e.ID + " " + strconv.FormatInt(e.modified, 36) + " " + strconv.FormatInt(int64(e.lease), 36) + ";")
	}
	return b.String()
}

// firstOf splits a list of waiters that waitersBehind made. It returns the first waiter and the
// list of the others. It returns false if the list is empty.
func firstOf(text string) (w waiterAt, rest string, ok bool) {
	first, rest, _ := strings.Cut(text, ";")
	fields := strings.Fields(first)
	if len(fields) != 4 {
		return w, "", false
	}
	modified, err1 := strconv.ParseInt(fields[2], 36, 64)
	lease, err2 := strconv.ParseInt(fields[3], 36, 64)
	return waiterAt{fields[0], fields[1], modified, clientv3.LeaseID(lease)}, rest, err1 == nil && err2 == nil
}

// passOn ends a hold and passes the name on to the next waiter. If it returns false without an
// error, nothing was changed.
func (s *Store) passOn(ctx context.Context, p *nameKeys, h *hold) (bool, error) {
	to, rest, ok := firstOf(h.next)
	fence, err := nextFence(h.fencing(), 0)
	if err != nil || !ok {
		return false, nil //nolint:nilerr // the next holder reports it
	}
	keeper, err := s.leases.forFence(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the caller then deletes the hold, which needs no lease
	}
	grant := identity(fence, to.id) + `,"since":` + strconv.FormatInt(time.Now().UnixMicro(), 10) + "}"
	conds := []*pb.Compare{
		writtenAt(h.key, h.modified.Load()), writtenAt(h.ownPlace.key, h.ownPlace.modified), writtenAt(p.key(waiting, to.part), to.modified),
	}
	todo := []*pb.RequestOp{
		putKey(h.ownPlace.key, handOverText(fence, to.id, rest), to.lease), putKey(h.key, grant, to.lease), putFence(p, fence, keeper),
	}
	if h.previousPlace.key != "" {
		conds = append(conds, writtenAt(h.previousPlace.key, h.previousPlace.modified))
		todo = append(todo, deleteKey(h.previousPlace.key))
	}
	reply, err := s.conn.commit(ctx, conds, todo, nil)
	switch {
	case isLeaseGone(err), isNoSpace(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return reply.Succeeded, nil
}

// handOverText returns the text that tells a waiter that it has the name. A Release writes the text
// into the place of the old hold. The text is the JSON of a record with only the fields Fence,
// PassedTo and Waiters.
func handOverText(fence uint64, waiterID, next string) string {
	return `{"fence":` + strconv.FormatUint(fence, 10) + `,"to":"` + waiterID + `","next":"` + next + `"}`
}

// parseHandOver decodes a text of handOverText. It splits the text by hand, because a JSON decoder
// took 15 µs longer for 32 waiters. It uses the JSON decoder only if the text has another form.
func parseHandOver(value []byte) (r record, ok bool) {
	text, isTold := strings.CutPrefix(string(value), `{"fence":`)
	fence, text, hasTo := strings.Cut(text, `,"to":"`)
	to, text, hasNext := strings.Cut(text, `","next":"`)
	next, ends := strings.CutSuffix(text, `"}`)
	n, err := strconv.ParseUint(fence, 10, 64)
	if isTold && hasTo && hasNext && ends && err == nil && !strings.ContainsAny(to+next, `"\`) {
		return record{Fence: n, PassedTo: to, Waiters: next}, true
	}
	return r, json.Unmarshal(value, &r) == nil
}

// holdPassedOn reports whether a Release has passed the name on to this waiter. e is an event of
// the place that the waiter watches. The new hold has the lease l of the waiter's own place. h is
// that hold, or nil if the lease may have ended.
func (w *wait) holdPassedOn(e *clientv3.Event, l *lease) (h *hold, passed bool) {
	if e.Type != mvccpb.Event_PUT {
		return nil, false
	}
	told, ok := parseHandOver(e.Kv.Value)
	if !ok || told.PassedTo != w.id {
		return nil, false
	}
	if l == nil || int64(l.id) != e.Kv.Lease {
		return nil, true
	}
	h = &hold{
		name: w.r.Name, id: w.id, key: w.keys.key(exclusive, ""), fence: told.Fence,
		ownPlace: keyVersion{w.key, w.created}, previousPlace: keyVersion{string(e.Kv.Key), e.Kv.ModRevision}, next: told.Waiters, shortRequest: w.r,
		since: l.from, seen: l.from, renewed: l.from, end: l.end,
	}
	h.modified.Store(e.Kv.ModRevision)
	return h, true
}

// A hold that was passed on has a short lease at first. If less than minPassed of this lease is
// left, Wait gets the full lease before it returns, so that the caller has time to use the hold.
const minPassed = driver.MaxReservation + 500*time.Millisecond

// handOver remembers a hold that was passed on, and returns its Grant. If nobody extends or
// releases the hold soon, the store gives the hold its full lease.
func (s *Store) handOver(h *hold) driver.Grant {
	soon := h.end.Sub(s.cfg.clock.Now()) - minPassed/2
	h.stop = s.cfg.clock.AfterFunc(soon, func() { s.complete(h) })
	s.holds.remember(h)
	return driver.Grant{Fence: h.fence, TTL: h.end.Sub(h.since), From: h.since}
}

// complete gives the full lease to a hold that was passed on, unless the hold has it already.
func (s *Store) complete(h *hold) {
	if s.beginCall(s.queueLease.ctx) != nil {
		return
	}
	defer s.work.Done()
	for s.holds.find(h.name, h.id) == h && s.queueLease.ctx.Err() == nil {
		ctx, cancel := s.conn.limits.limit(s.queueLease.ctx)
		_, err := s.fullLease(ctx, *h.shortRequest)
		cancel()
		if !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
			return
		}
		storekit.Sleep(s.queueLease.ctx, 100*time.Millisecond)
	}
}

// fullLease gives the hold of the request r a lease of its full length.
func (s *Store) fullLease(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return s.withLeases(ctx, &r, func(a *attempt) error {
		st, err := s.conn.readState(ctx, a.keys, r.Name)
		if err != nil {
			return err
		}
		return a.apply(ctx, st, func(st *state) (*change, error) {
			if e := st.liveHold(a.id); e != nil {
				return a.keepHold(ctx, st, e)
			}
			return nil, a.whyLost(st)
		})
	})
}
