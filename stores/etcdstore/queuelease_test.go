package etcdstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// A setClock is a clock that only the test moves.
type setClock struct {
	driver.Clock
	now atomic.Int64
}

func (c *setClock) Now() driver.Instant { return driver.Instant(c.now.Load()) }

// TestLateRenewal: all places of a store in queues have one lease, even if a place is added when a
// renewal of that lease is late. With another lease for the new place, nobody would renew the first
// one, and the earlier waiters would lose their places.
func TestLateRenewal(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	clock := &setClock{Clock: driver.SystemClock()}
	clock.now.Store(int64(driver.SystemClock().Now()))
	holder, c := mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	s := mustOpen(t, []string{srv.Addr()}, etcdstore.WithClock(clock))
	for i := range 4 {
		name := fmt.Sprint("job", i)
		take(t, holder, request(name, "holder"))
		queueUp(t, name, s)
		clock.now.Add(int64(placesLast.MinLease - 800*time.Millisecond)) // the store waits 2 s for the renewal
	}
	if leases := leasesOfPlaces(t, c); len(leases) != 1 {
		t.Fatalf("the places have %d leases: %v", len(leases), leases)
	}
}

// leasesOfPlaces returns the leases of all waiters.
func leasesOfPlaces(t *testing.T, c *clientv3.Client) map[int64][]string {
	t.Helper()
	reply, err := c.Get(t.Context(), "padlock/l/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	leases := make(map[int64][]string)
	for _, kv := range reply.Kvs {
		if key := string(kv.Key); key[len(key)-len("/k/"):] != "/k/" {
			leases[kv.Lease] = append(leases[kv.Lease], key)
		}
	}
	return leases
}

// TestManyWaitersAtOnce: waiters that come at the same time do not repeat their transactions
// because of each other. Each reads the name and joins the queue. In the end each gets the name.
func TestManyWaitersAtOnce(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	holder, c := mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	take(t, holder, request("job", "holder"))
	const n = 32
	var stores []*etcdstore.Store
	for range n {
		stores = append(stores, mustOpen(t, []string{srv.Addr()}))
	}
	before := callCount(t, srv.Addr(), "Txn")
	results := make(chan result, n)
	for i, s := range stores {
		go func() {
			r := request("job", fmt.Sprint("waiter ", i))
			var g driver.Grant
			var err error
			for g.TTL == 0 && err == nil { // on a busy machine a place can be lost
				g, err = s.Wait(t.Context(), r, true)
			}
			results <- result{s, r, g, err}
		}()
	}
	server.Eventually(t, func() error {
		reply, err := c.Get(t.Context(), "padlock/l/job/a/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && reply.Count != n {
			err = fmt.Errorf("%d of %d waiters are in the queue", reply.Count, n)
		}
		return err
	})
	if calls := callCount(t, srv.Addr(), "Txn") - before; calls > 3*n {
		t.Errorf("%d transactions for %d waiters", calls, n)
	}
	if _, err := holder.Release(t.Context(), "job", "holder", 0); err != nil {
		t.Fatal(err)
	}
	for last := uint64(0); len(stores) > 0; stores = stores[1:] {
		w := <-results
		if w.err != nil || !safety.Rises(t, w.g.Fence, last) {
			t.Fatalf("after fence %d: %+v, %v", last, w.g, w.err)
		}
		last = w.g.Fence
		if o, err := w.s.Release(t.Context(), "job", w.r.Token.Text(), 0); err != nil || o != driver.OutcomeReleased {
			t.Fatalf("Release: %v, %v", o, err)
		}
	}
}
