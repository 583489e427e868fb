package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A line is the lease of this store's places in queues. All waits share it, and it is renewed only
// while there is a wait. So the places of a process that died or was stopped soon go away.
type line struct {
	leases *leases
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup
	turn   chan struct{} // held while the lease is made or renewed

	mu    sync.Mutex
	waits int
	stop  context.CancelFunc // ends the renewal
	held  *lease
}

const (
	placeLength = 2 // seconds; the shortest lease of a server with default settings
	renewPlaces = 500 * time.Millisecond
	// deadWaiter is the length of that lease plus the time that a server may take to notice its
	// end.
	deadWaiter = 3 * time.Second
)

func newLine(l *leases) *line {
	n := &line{leases: l, turn: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(l.conn.ctx))
	return n
}

// closeLine ends all waits.
func (n *line) closeLine() {
	n.cancel()
	n.done.Wait()
}

// enter counts a wait, which the returned function ends. While there is a wait, the lease is
// renewed.
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

// keepRenewing renews the lease.
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
	if l := n.known(0); l != nil {
		n.renewNow(ctx, l)
	}
}

// renewNow renews the lease l. The caller has the turn.
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

// lease returns the lease for a new place. If the present lease is about to end, because a renewal
// is late, lease renews it. With another lease, the places that have this one would be lost.
func (n *line) lease(ctx context.Context) (clientv3.LeaseID, error) {
	if !n.begin(ctx) {
		return 0, ctx.Err()
	}
	defer func() { <-n.turn }()
	const enough = placeLength * time.Second / 2
	if l := n.known(0); l != nil && n.known(enough) == nil {
		n.renewNow(ctx, l)
	}
	if l := n.known(enough); l != nil {
		return l.id, nil
	}
	l, err := n.leases.grant(ctx, placeLength)
	if err != nil {
		return 0, err
	}
	n.set(l)
	return l.id, nil
}

func (n *line) begin(ctx context.Context) bool {
	select {
	case n.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// known returns the lease if it lasts at least for the given time, and nil otherwise.
func (n *line) known(left time.Duration) *lease {
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
