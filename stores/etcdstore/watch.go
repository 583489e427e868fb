package etcdstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/storekit"
)

// isDeletion reports whether an event is the deletion of a key.
func isDeletion(e *clientv3.Event) bool { return e.Type == mvccpb.Event_DELETE }

// watchLag is how long a watch stays open after it has woken a waiter.
const watchLag = 100 * time.Millisecond

// watch waits until the function wake returns true for an event. It also returns after a time that
// is a little longer than most, and 50 ms after the watch has failed: the connection was lost, the
// server has no leader, or a compaction has removed the events from the given revision on. The
// waiter then reads the queue again, so it misses nothing.
func (s *Store) watch(ctx context.Context, most time.Duration, key string, revision int64, wake func(*clientv3.Event) bool, opts ...clientv3.OpOption) {
	client, err := s.conn.getClient(ctx)
	if err != nil {
		storekit.Sleep(ctx, 50*time.Millisecond)
		return
	}
	open, end := context.WithTimeout(s.calls.Closing, most+rand.N(most/4))
	stop := context.AfterFunc(ctx, end)
	defer func() {
		// Closing a watch sends a request to the server. Close the watch a little later, so that
		// this request does not delay the requests of the new holder.
		if stop() {
			time.AfterFunc(watchLag, end)
		}
	}()
	opts = append(opts, clientv3.WithRev(revision))
	for reply := range client.Watch(clientv3.WithRequireLeader(open), key, opts...) {
		if reply.Err() != nil {
			storekit.Sleep(ctx, 50*time.Millisecond)
			return
		}
		if slices.ContainsFunc(reply.Events, wake) {
			return
		}
	}
}
