package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// subscriber has the waiters of a store and the subscriptions on which they receive messages. There
// is one subscription for all waiters, or one for each primary of a cluster that supports sharded
// messages (SPUBLISH). A subscription is made when its first waiter comes.
type subscriber struct {
	s       *Store
	running sync.WaitGroup // the goroutines of the subscriptions

	mu            sync.Mutex
	subscriptions map[string]*subscription // by primary
	refused       hashSlotOwners           // the owners of the slots when the server last refused sharded messages
	waiters       map[uint64]*waiter
	leaving       map[uint64]*waiter   // waiters that gave up, as long as the server has not confirmed that they are out of the queue
	lines         map[string][]*waiter // by name, the waiters for an exclusive hold, in the order in which they came
	lastID        uint64
}

func (sub *subscriber) init(s *Store) {
	sub.s = s
	sub.subscriptions = map[string]*subscription{}
	sub.waiters, sub.leaving, sub.lines = map[uint64]*waiter{}, map[uint64]*waiter{}, map[string][]*waiter{}
}

// listening returns the subscription for a waiter. It waits until the server has confirmed that
// subscription. If a waiter joined the queue before that, the scripts would find that nobody
// receives its messages, and treat the waiter as gone.
func (sub *subscriber) listening(ctx context.Context, c *connected, w *waiter) (*subscription, error) {
	n, err := sub.choose(c, w)
	if err != nil {
		return nil, err
	}
	sub.mu.Lock()
	up := n.up
	sub.mu.Unlock()
	select {
	case <-up:
		return n, nil
	default:
	}
	t := time.NewTimer(spread(time.Second))
	defer t.Stop()
	select {
	case <-up:
		return n, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.C:
		sub.mu.Lock()
		defer sub.mu.Unlock()
		if n.err != nil {
			return nil, unavailable("no subscription can be made: %v", n.err)
		}
		return nil, unavailable("no subscription can be made")
	}
}

// choose returns the subscription for a waiter, and starts it if it is new.
func (sub *subscriber) choose(c *connected, w *waiter) (*subscription, error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	primary := ""
	if c.owners != nil && !sub.hasRefused(c.owners) {
		primary = c.owners.primaryOf(hashSlotOf(sub.s.keys.lock(w.r.Name).keys[0]))
	}
	n := sub.subscriptions[primary]
	if n == nil {
		if sub.s.calls.Closing.Err() != nil {
			return nil, driver.ErrClosed
		}
		if n = newSubscription(sub, primary, c.owners); n == nil {
			return nil, unavailable("the cluster moves the slots of this name")
		}
		sub.subscriptions[primary] = n
		sub.running.Go(n.listen)
	}
	w.on = n
	return n, nil
}

// hasRefused reports whether the server has refused sharded messages, and the slots still have the
// same owners as then. The caller holds mu.
func (sub *subscriber) hasRefused(owners hashSlotOwners) bool {
	return slices.Equal(sub.refused, owners)
}

// maybeDead is called when a connection was made or lost. It makes each subscription check whether
// messages still arrive.
func (sub *subscriber) maybeDead() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for _, n := range sub.subscriptions {
		n.maybeDead()
	}
}
