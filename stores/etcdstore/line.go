package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A line manages the places of this store in all queues. These places share one lease. The line
// renews the lease only while a call of Wait runs. If the process dies or is stopped, the lease
// ends and the server deletes the places.
type line struct {
	leases *leases
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
	turn   chan struct{} // full while the lease is made or renewed; see begin

	mu    sync.Mutex
	waits int
	stop  context.CancelFunc // ends the renewal
	held  *lease
}

const (
	placeLength = 2 // seconds; the shortest lease that a server with default settings grants
	renewPlaces = 500 * time.Millisecond
	// deadWaiter is how long the place of a dead waiter may stay: the length of the lease, plus up
	// to a second until the server notices that the lease has ended.
	deadWaiter = 3 * time.Second
)

func newLine(l *leases) *line {
	n := &line{leases: l, turn: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(l.conn.ctx))
	return n
}

// closeLine ends all calls of Wait, and returns when the lease is not renewed any more.
func (n *line) closeLine() {
	n.cancel()
	n.done.Wait()
}

// enter records that a call of Wait has begun. While at least one call of Wait runs, a goroutine
// renews the lease. The caller must call the returned function at the end of Wait.
func (n *line) enter() (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits++; n.waits == 1 && n.ctx.Err() == nil {
		ctx, cancel := context.WithCancel(n.ctx)
		n.stop = cancel
		n.done.Go(func() { n.keepRenewing(ctx) })
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.waits--; n.waits == 0 && n.stop != nil {
			n.stop()
		}
	}
}

// keepRenewing renews the lease every renewPlaces, until ctx ends.
func (n *line) keepRenewing(ctx context.Context) {
	for {
		pause(ctx, renewPlaces)
		if ctx.Err() != nil {
			return
		}
		n.renew(ctx)
	}
}

func (n *line) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, placeLength*time.Second)
	defer cancel()
	if !n.begin(ctx) {
		return
	}
	defer func() { <-n.turn }()
	if l := n.currentLease(0); l != nil {
		n.renewNow(ctx, l)
	}
}

// renewNow renews the lease l. The caller must have called begin.
func (n *line) renewNow(ctx context.Context, l *lease) {
	from := n.leases.clock.Now()
	ttl, err := n.leases.conn.keepAlive(ctx, l.id)
	switch {
	case isLeaseGone(err):
		n.set(nil)
	case err == nil:
		n.set(&lease{id: l.id, from: from, ttl: time.Duration(ttl) * time.Second})
	}
}

// lease returns the lease for a new place in a queue. If the current lease is about to end because
// a renewal is late, the method renews it first. A new lease would not help the existing places:
// the server deletes them when the current lease ends.
func (n *line) lease(ctx context.Context) (clientv3.LeaseID, error) {
	if !n.begin(ctx) {
		return 0, ctx.Err()
	}
	defer func() { <-n.turn }()
	const enough = placeLength * time.Second / 2
	if l := n.currentLease(0); l != nil && n.currentLease(enough) == nil {
		n.renewNow(ctx, l)
	}
	if l := n.currentLease(enough); l != nil {
		return l.id, nil
	}
	l, err := n.leases.grant(ctx, placeLength)
	if err != nil {
		return 0, err
	}
	n.set(l)
	return l.id, nil
}

// begin waits until no other goroutine makes or renews the lease. The caller must receive from
// n.turn when it has finished. begin returns false if ctx ends first.
func (n *line) begin(ctx context.Context) bool {
	select {
	case n.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// currentLease returns the lease if it lasts at least for the given time, and nil otherwise.
func (n *line) currentLease(left time.Duration) *lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held == nil || n.held.endTime() < n.leases.clock.Now().Add(left) {
		return nil
	}
	return n.held
}

func (n *line) set(l *lease) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = l
}
