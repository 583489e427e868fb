package etcdstore

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/storekit"
)

// A queueLease manages the places of this store in all queues. These places share one lease. It
// renews the lease only while a call of Wait runs. If the process dies or is stopped, the lease
// ends and the server deletes the places.
type queueLease struct {
	leases *leases
	calls  *storekit.Calls
	turn   chan struct{} // held while the lease is made, or its barrier is written

	mu      sync.Mutex
	waits   int
	stop    context.CancelFunc // ends the renewal
	held    *lease
	barrier int64 // the last known revision of the barrier of held; see ticket
}

// A ticket is what a request for a place in a queue needs. A waiter may give up while its request
// is on its way, and the server may carry out the request after the waiter has left the queue.
// Nobody would then delete the place, and it would keep the name from all others as long as the
// process waits for anything. So the request compares the revision of a key, the barrier of the
// lease. refuseLate writes this key. After that, the server refuses every request with an older
// ticket.
type ticket struct {
	lease   clientv3.LeaseID // of all places of the store
	barrier int64            // the revision of the barrier's last write; 0 if it was never written
}

const (
	placeLength = 2 // seconds; the shortest lease that a server with default settings grants
	renewPlaces = 500 * time.Millisecond
	// deadWaiter is how long the place of a dead waiter may stay: the length of the lease, plus up
	// to a second until the server notices that the lease has ended.
	deadWaiter = 3 * time.Second
)

// enter records that a call of Wait has begun. While at least one call of Wait runs, a goroutine
// renews the lease. The caller must call the returned function at the end of Wait.
func (n *queueLease) enter() (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits++; n.waits == 1 && n.calls.Closing.Err() == nil {
		ctx, cancel := context.WithCancel(n.calls.Closing)
		n.stop = cancel
		n.calls.Work.Go(func() { n.keepRenewing(ctx) })
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.waits--; n.waits == 0 && n.stop != nil {
			n.stop()
		}
	}
}

// maxRenewals is how many renewals may wait for their replies at the same time, if the store has so
// many members.
const maxRenewals = 3

// keepRenewing renews the lease, until ctx ends. If the store has several members, it does not wait
// for the reply to one renewal before it sends the next, because a member may be silent.
func (n *queueLease) keepRenewing(ctx context.Context) {
	var renewals sync.WaitGroup
	defer renewals.Wait()
	room := make(chan struct{}, min(maxRenewals, len(n.leases.conn.server.Endpoints)))
	for {
		storekit.Sleep(ctx, n.untilRenewal())
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		renewals.Go(func() {
			defer func() { <-room }()
			if l := n.lease(); l != nil && ctx.Err() == nil {
				n.renew(ctx, l)
			}
		})
	}
}

// untilRenewal returns the time until the next renewal. The lease is renewed every renewPlaces, or
// twice as often while the reply to a renewal is late.
func (n *queueLease) untilRenewal() time.Duration {
	l := n.lease()
	if l == nil {
		return renewPlaces
	}
	return max(renewPlaces/2, renewPlaces-n.leases.clock.Now().Sub(l.from))
}

// renew renews the lease l.
func (n *queueLease) renew(ctx context.Context, l *lease) {
	ctx, cancel := n.leases.conn.limits.limit(ctx)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, placeLength*time.Second)
	defer end()
	renewed, err := n.leases.renew(ctx, l.id)
	switch {
	case isLeaseGone(err):
		n.drop(l)
	case err == nil:
		n.extend(renewed)
	}
}

// ticket returns the ticket for a new place in a queue. If the current lease is about to end
// because a renewal is late, or may have ended, the method renews it first. A new lease would not
// help the existing places: the server deletes them when the current lease ends.
func (n *queueLease) ticket(ctx context.Context) (ticket, error) {
	if err := storekit.Await(ctx, n.turn); err != nil {
		return ticket{}, failure(ctx, err, false)
	}
	defer func() { <-n.turn }()
	const enough = placeLength * time.Second / 2
	if l := n.lease(); l != nil && n.currentLease(enough) == nil {
		n.renew(ctx, l)
	}
	l := n.currentLease(enough)
	if l == nil {
		var err error
		if l, err = n.leases.grant(ctx, placeLength); err != nil {
			return ticket{}, err
		}
		n.set(l)
	}
	return n.newer(ticket{lease: l.id}), nil
}

// newer returns a ticket for the same lease as t, with the newest barrier that the store knows.
func (n *queueLease) newer(t ticket) ticket {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held != nil && n.held.id == t.lease {
		t.barrier = max(t.barrier, n.barrier)
	}
	return t
}

// noteBarrier records that the barrier of the lease of t was written at the revision in t.
func (n *queueLease) noteBarrier(t ticket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held != nil && n.held.id == t.lease {
		n.barrier = max(n.barrier, t.barrier)
	}
}

// refuseLate makes sure that the server refuses every request for a place that was sent with the
// ticket t and that it has not carried out yet.
func (n *queueLease) refuseLate(ctx context.Context, t ticket) error {
	if err := storekit.Await(ctx, n.turn); err != nil {
		return failure(ctx, err, false)
	}
	defer func() { <-n.turn }()
	if !n.renews(t) || n.newer(t) != t {
		return nil
	}
	reply, err := n.leases.conn.commit(ctx, nil, []*pb.RequestOp{putKey(n.barrierKey(t), "", t.lease)}, nil)
	switch {
	case isLeaseGone(err): // without its lease, no place can be made
		return nil
	case err != nil:
		return err
	}
	n.noteBarrier(ticket{t.lease, reply.Header.Revision})
	return nil
}

// barrierKey returns the key of the barrier. It has the lease of t, so it ends with this lease.
func (n *queueLease) barrierKey(t ticket) string { return n.leases.prefix + "b/" + leaseID(t.lease) }

// renews reports whether the store may still renew the lease of t. If it does not, the places that
// have this lease end by themselves.
func (n *queueLease) renews(t ticket) bool {
	l := n.lease()
	return l != nil && l.id == t.lease && n.calls.Closing.Err() == nil
}

// lease returns the lease of the places, or nil. The lease may have ended.
func (n *queueLease) lease() *lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held
}

// currentLease returns the lease if it lasts at least for the given time, and nil otherwise.
func (n *queueLease) currentLease(left time.Duration) *lease {
	l := n.lease()
	if l == nil || l.end < n.leases.clock.Now().Add(left) {
		return nil
	}
	return l
}

func (n *queueLease) set(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held, n.barrier = l, 0
}

// extend records that the present lease was renewed. Replies may arrive in another order than their
// requests were sent.
func (n *queueLease) extend(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held != nil && n.held.id == l.id && n.held.from < l.from {
		n.held = l
	}
}

// drop records that the lease l is gone.
func (n *queueLease) drop(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held != nil && n.held.id == l.id {
		n.held = nil
	}
}
