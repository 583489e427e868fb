package etcdstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

const (
	// maxOutage is how long Wait keeps trying while the server cannot be reached. Then it returns
	// an error.
	maxOutage = 3 * time.Second
	// lookAgain is how long a waiter relies on its watch before it reads the keys again. A watch
	// may be silent for ever, for example after the server has lost its data.
	lookAgain = 10 * time.Second
	// lookAgainOutside is the same for a waiter outside of the queue. It is shorter, because the
	// store may send nothing else while such a waiter waits, and would not notice that a member is
	// silent.
	lookAgainOutside = 3 * time.Second
)

// A wait is one call of Wait.
type wait struct {
	s       *Store
	r       *driver.Request
	keys    nameKeys
	id      string
	key     string // of the place in the queue
	created int64  // the revision that created the place, or 0
	sent    bool   // there may be a place or a hold to give up, because a request for it was sent
	ticket  ticket // of the last request for a place
	late    bool   // the outcome of that request is not known; see queueLease.refuseLate
}

// Wait implements driver.Waiter. A waiter watches the key of the waiter before it, and the first
// waiter watches the keys of the holders. So a Release wakes one waiter. Wait returns a hold and
// not a reservation, so the caller need not claim it.
func (s *Store) Wait(ctx context.Context, r driver.Request, reserve bool) (driver.Grant, error) {
	if err := r.Validate(&guarantees); err != nil {
		return driver.Grant{}, err
	}
	if err := s.calls.Begin(ctx); err != nil {
		return driver.Grant{}, err
	}
	defer s.calls.Work.Done()
	ends, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.calls.Closing, func() { cancel(driver.ErrClosed) })()
	w := &wait{s: s, r: &r, keys: s.cfg.keysOf(r.Name), id: idOf(r.Token.Text())}
	var g driver.Grant
	var err error
	if reserve {
		defer s.queueLease.enter()()
		g, err = w.inQueue(ends)
	} else {
		err = w.waitOutside(ends)
	}
	if w.sent && g.TTL == 0 {
		s.calls.Work.Go(w.leaveQueue)
	}
	if err != nil && ends.Err() != nil {
		err = context.Cause(ends)
	}
	return g, err
}

// leaveQueue gives up the waiter's place in the queue. If the waiter was granted a hold, leaveQueue
// releases that hold. As long as the store renews the lease of the place, the place does not end by
// itself, so leaveQueue does not give up.
func (w *wait) leaveQueue() {
	for tries := 0; tries == 0 || w.s.queueLease.renews(w.ticket); tries++ {
		ctx, cancel := w.s.conn.limits.limit(context.WithoutCancel(w.s.conn.ctx))
		for ctx.Err() == nil {
			if err := w.leaveOnce(ctx); err == nil || !errors.Is(err, driver.ErrUncertain) && !errors.Is(err, driver.ErrUnavailable) {
				cancel()
				return
			}
			storekit.Sleep(ctx, 100*time.Millisecond)
		}
		cancel()
	}
}

func (w *wait) leaveOnce(ctx context.Context) error {
	if err := w.refuseLate(ctx); err != nil {
		return err
	}
	_, err := w.s.release(ctx, w.r.Name, w.id, 0)
	return err
}

// refuseLate makes sure that the outcome of the last request for a place does not change any more.
func (w *wait) refuseLate(ctx context.Context) error {
	if !w.late {
		return nil
	}
	err := w.s.queueLease.refuseLate(ctx, w.ticket)
	w.late = err != nil
	return err
}

// errPlaceGone means that the place in the queue is gone. The caller tries again.
var errPlaceGone = errors.New("the place in the queue is gone")

// inQueue takes a place in the queue and waits until the name is granted.
func (w *wait) inQueue(ctx context.Context) (driver.Grant, error) {
	var since time.Time // when the outage began
	for {
		var st *state
		g, err := w.attemptOnce(ctx, func(ctx context.Context, a *attempt) error {
			var err error
			st, err = w.tryTake(ctx, a)
			return err
		})
		switch {
		case err == nil && g.TTL > 0:
			return g, nil // the field From is set, so the Grant is a hold and not a reservation
		case errors.Is(err, errPlaceGone):
			return driver.Grant{}, nil
		case err == nil:
			since = time.Time{}
			w.watch(ctx, st)
		case !w.goesOn(ctx, err, &since):
			return driver.Grant{}, err
		}
		if ctx.Err() != nil {
			return driver.Grant{}, ctx.Err()
		}
	}
}

// attemptOnce makes one attempt. The wait may take long, so each attempt has a time limit of its
// own.
func (w *wait) attemptOnce(ctx context.Context, try func(context.Context, *attempt) error) (driver.Grant, error) {
	ctx, cancel := w.s.conn.limits.limit(ctx)
	defer cancel()
	var sent driver.Instant
	g, err := w.s.withLeases(ctx, w.r, func(a *attempt) error {
		sent = a.sent
		return try(ctx, a)
	})
	if g.TTL > 0 {
		g.From = sent
	}
	return g, err
}

// goesOn reports whether Wait goes on after the error err. If it does, goesOn pauses before it
// returns.
func (w *wait) goesOn(ctx context.Context, err error, since *time.Time) bool {
	var foreign *foreignKey
	if ctx.Err() != nil || errors.As(err, &foreign) || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUncertain) {
		return false
	}
	if since.IsZero() {
		*since = time.Now()
	}
	if time.Since(*since) > maxOutage {
		return false
	}
	storekit.Sleep(ctx, 50*time.Millisecond+rand.N(50*time.Millisecond))
	return true
}

// tryTake takes the name if it is free for the waiter, and returns nil. Otherwise the waiter has to
// wait: tryTake makes sure that it has a place in the queue, and returns the state of the name.
func (w *wait) tryTake(ctx context.Context, a *attempt) (*state, error) {
	st, joined, err := w.look(ctx, a)
	if st == nil || err != nil || joined {
		return st, err
	}
	var last *state
	err = a.apply(ctx, st, func(st *state) (*change, error) {
		last, joined = st, false
		mine := st.find(waiting, w.id)
		switch {
		case st.liveHold(w.id) != nil: // an earlier claim succeeded, but its reply was lost
			return a.keepHold(ctx, st, st.liveHold(w.id))
		case mine == nil && w.created != 0:
			return nil, errPlaceGone
		case mine != nil:
			w.key, w.created = mine.key, mine.created // the place was made, but the reply was lost
		}
		if st.excluded(w.id, w.r.Shared) || st.waiterAhead(w.created, w.r.Shared) != nil {
			if mine != nil {
				return nil, nil
			}
			joined = true
			return w.join(st), nil
		}
		todo, err := a.takeName(st)
		if err == nil && mine != nil {
			todo.requireEntry(mine)
			todo.ops = append(todo.ops, deleteKey(mine.key))
		} else if err == nil {
			todo.conds = append(todo.conds, w.useTicket())
		}
		return todo, err
	})
	w.late = w.late && isOnItsWay(err)
	switch {
	case err != nil:
		return nil, err
	case a.granted:
		return nil, nil
	case joined:
		// A key may have been deleted after the state was read. The caller sees this deletion,
		// because the caller's watch begins at the revision of the state.
		w.created = a.revision
	}
	return last, nil
}

// look joins the queue if some key blocks the waiter, or takes the name if the waiter is the first
// in the queue. If it does neither, it returns the state of the name. If it takes the name, the
// state is nil.
func (w *wait) look(ctx context.Context, a *attempt) (st *state, joined bool, err error) {
	switch {
	case w.created != 0 && !w.r.Shared:
		st, err = w.claim(ctx, a)
		return st, false, err
	case w.created != 0:
		st, err = w.s.conn.readState(ctx, w.keys, w.r.Name)
		return st, false, err
	}
	if err = w.refuseLate(ctx); err != nil {
		return nil, false, err
	}
	if w.ticket, err = w.s.queueLease.ticket(ctx); err != nil {
		return nil, false, err
	}
	if st, err = w.s.conn.readState(ctx, w.keys, w.r.Name); err != nil {
		return nil, false, err
	}
	return w.joinBehind(ctx, st)
}

// join returns the change that adds a place at the end of the queue.
func (w *wait) join(st *state) *change {
	w.key = st.freeKey(waiting, w.s.id)
	rec := record{ID: w.id, Shared: w.r.Shared, Holder: w.r.Holder, Alone: true}
	return &change{
		conds: []*pb.Compare{w.useTicket(), noKeys(w.key, "")},
		ops:   []*pb.RequestOp{putKey(w.key, rec.text(), w.ticket.lease)},
	}
}

// useTicket records that a request for a place or a hold is about to be sent. It returns the
// comparison that the request needs.
func (w *wait) useTicket() *pb.Compare {
	w.sent, w.late = true, true
	w.ticket = w.s.queueLease.newer(w.ticket)
	return writtenAt(w.s.queueLease.barrierKey(w.ticket), w.ticket.barrier)
}

// joinBehind adds the waiter to the end of the queue if some key blocks the waiter; see keepsOut.
// The transaction compares only the blocking key, the key of the new place and the ticket. So many
// waiters can join at the same time. The results are the state of the name, and whether the waiter has joined.
func (w *wait) joinBehind(ctx context.Context, st *state) (last *state, joined bool, err error) {
	for range maxTries {
		before := st.keepsOut(w.id, w.r.Shared)
		if before == nil || st.liveHold(w.id) != nil || st.find(waiting, w.id) != nil {
			return st, false, nil
		}
		todo := w.join(st)
		todo.conds = append(todo.conds, before.blocks())
		reads := append(w.keys.reads(), getKeys(w.s.queueLease.barrierKey(w.ticket), ""))
		reply, err := w.s.conn.commit(ctx, todo.conds, append(todo.ops, w.keys.reads()...), reads)
		w.late = isOnItsWay(err)
		switch {
		case err != nil:
			return nil, false, err
		case reply.Succeeded:
			reply.Responses = reply.Responses[1:]
			w.created = reply.Header.Revision
			return stateOf(w.keys, w.r.Name, reply), true, nil
		}
		for _, kv := range reply.Responses[2].GetResponseRange().Kvs {
			w.s.queueLease.noteBarrier(ticket{w.ticket.lease, kv.ModRevision})
		}
		reply.Responses = reply.Responses[:2]
		st = stateOf(w.keys, w.r.Name, reply)
	}
	return nil, false, unavailable("too many others change the name at the same time")
}

// blocks returns a comparison that is true if the entry still blocks the waiters behind it. A hold
// does so as long as its key exists, even if it has another token meanwhile.
func (e *entry) blocks() *pb.Compare {
	if e.kind == waiting {
		return writtenAt(e.key, e.modified)
	}
	return createdAt(e.key, e.created)
}

// claim takes the name in one transaction if the waiter is the first in the queue and the name is
// free. Otherwise claim returns the state of the name. The waiter must have a place in the queue.
// The place stays until the hold ends. The next waiter watches the place, so only the Release wakes
// the next waiter.
func (w *wait) claim(ctx context.Context, a *attempt) (*state, error) {
	fence, err := nextFence(0, w.r.FenceAbove)
	if err != nil {
		return nil, err
	}
	// The place gets the lease of the hold, so that both end at the same time.
	todo := change{ops: []*pb.RequestOp{putLease(w.key, a.lease.id)}}
	a.addHold(&todo, exclusive, w.keys.key(exclusive, ""), fence)
	todo.ops = append(todo.ops, putFence(&a.keys, fence, a.keeper))
	from, to := w.keys.blockingKeys(false)
	first, last := w.keys.queue()
	conds := append(hasFenceBelow(w.keys.fence, fenceText(fence)),
		createdAt(w.key, w.created), noKeys(from, to), createdAfter(first, last, w.created-1))
	reply, err := w.s.conn.commit(ctx, conds, todo.ops, w.keys.reads())
	switch {
	case err != nil:
		return nil, err
	case reply.Succeeded:
		a.entry.modified = reply.Header.Revision
		a.ownPlace = keyVersion{w.key, reply.Header.Revision}
		return nil, nil
	}
	return stateOf(w.keys, w.r.Name, reply), nil
}

// watch waits until a key that keeps the waiter out is deleted, or until some time has passed.
func (w *wait) watch(ctx context.Context, st *state) {
	from, to := w.keys.blockingKeys(false)
	ops := []clientv3.OpOption{clientv3.WithFilterPut(), clientv3.WithRange(to)}
	if before := st.waiterAhead(w.created, w.r.Shared); before != nil {
		from, ops = before.key, ops[:1]
	}
	w.s.watch(ctx, lookAgain, from, st.revision+1, isDeletion, ops...)
}

// waitOutside takes no place in the queue. It waits until the name may be free.
func (w *wait) waitOutside(ctx context.Context) error {
	var since time.Time
	for {
		st, err := w.read(ctx)
		switch {
		case err == nil && !w.blocked(st):
			return nil
		case err == nil:
			since = time.Time{}
			w.s.watch(ctx, lookAgainOutside, w.keys.dir, st.revision+1, isDeletion, clientv3.WithRange(w.keys.end), clientv3.WithFilterPut())
		case !w.goesOn(ctx, err, &since):
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (w *wait) read(ctx context.Context) (*state, error) {
	ctx, cancel := w.s.conn.limits.limit(ctx)
	defer cancel()
	return w.s.conn.readState(ctx, w.keys, w.r.Name)
}

// blocked reports whether Acquire or Convert would fail now. A reader that wants to be promoted
// need not wait for the waiters in the queue.
func (w *wait) blocked(st *state) bool {
	if st.excluded(w.id, w.r.Shared) {
		return true
	}
	return st.liveHold(w.id) == nil && st.waiterAhead(0, w.r.Shared) != nil
}
