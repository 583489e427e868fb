package etcdstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/etcdstore"
	"github.com/padlock-go/padlock/internal/server"
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
	srv := server.Etcd(t, server.EtcdOptions{})
	clock := &setClock{Clock: driver.SystemClock()}
	clock.now.Store(int64(driver.SystemClock().Now()))
	s, holder, c := mustOpen(t, []string{srv.Addr()}, etcdstore.WithClock(clock)), mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	for i := range 4 {
		name := fmt.Sprint("job ", i)
		take(t, holder, request(name, "holder"))
		queueUp(t, name, s)
		clock.now.Add(int64(1200 * time.Millisecond))
	}
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
	if len(leases) != 1 {
		t.Errorf("the places have %d leases: %v", len(leases), leases)
	}
}
