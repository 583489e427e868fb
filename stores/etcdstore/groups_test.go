package etcdstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// A laterClock is the clock of the system plus the time that the test adds.
type laterClock struct {
	driver.Clock
	plus atomic.Int64
}

func (c *laterClock) Now() driver.Instant { return c.Clock.Now().Add(time.Duration(c.plus.Load())) }

// TestSharedLeases: 400 holds that are extended at about the same time share a lease. If another
// process moves one of them to a lease of its own, the store finds it again.
func TestSharedLeases(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	clock := &laterClock{Clock: driver.SystemClock()}
	s, c := mustOpen(t, []string{srv.Addr()}, etcdstore.WithClock(clock)), newClient(t, srv.Addr())
	const holds, ttl = 400, 300 * time.Second
	extend := func() {
		t.Helper()
		clock.plus.Add(int64(ttl / 3))
		for i := range holds {
			if g, err := s.Extend(t.Context(), fmt.Sprint("job ", i), "token", ttl); err != nil || g.TTL < ttl*9/10 {
				t.Fatalf("Extend of hold %d: %+v, %v", i, g, err)
			}
		}
	}
	for i := range holds {
		r := request(fmt.Sprint("job ", i), "token")
		r.TTL = ttl
		take(t, s, r)
	}
	extend() // every hold gets its place in a group
	before, renewals := callCount(t, srv.Addr(), "Txn"), callCount(t, srv.Addr(), "LeaseKeepAlive")
	for range 3 {
		extend()
	}
	// Each time, one lease is renewed and the keys are compared in 4 transactions.
	if n := callCount(t, srv.Addr(), "Txn") - before; n > 3*4 {
		t.Errorf("%d transactions to extend %d holds three times", n, holds)
	}
	if n := callCount(t, srv.Addr(), "LeaseKeepAlive") - renewals; n == 0 || n > 3 {
		t.Errorf("%d renewals to extend %d holds three times", n, holds)
	}
	keys, err := c.Get(t.Context(), "padlock/l/job%207/", clientv3.WithPrefix())
	if err != nil || len(keys.Kvs) != 1 {
		t.Fatalf("%+v, %v", keys, err)
	}
	other, err := c.Grant(t.Context(), 60) // a hold would stay on a lease that lasts longer
	if err == nil {
		_, err = c.Put(t.Context(), string(keys.Kvs[0].Key), "", clientv3.WithIgnoreValue(), clientv3.WithLease(other.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	clock.plus.Add(int64(ttl / 3))
	for range 2 { // the first Extend finds that the key has another lease
		if _, err := s.Extend(t.Context(), "job 7", "token", ttl); err != nil {
			t.Fatal(err)
		}
	}
	now, err := c.Get(t.Context(), string(keys.Kvs[0].Key))
	if err != nil || len(now.Kvs) != 1 || now.Kvs[0].Lease == int64(other.ID) {
		t.Errorf("the hold keeps the lease that another process gave it: %+v, %v", now, err)
	}
}

// TestReleasedHoldLeavesItsGroup: a released hold does not count as late. Otherwise the other holds of
// the group would move to a new lease.
func TestReleasedHoldLeavesItsGroup(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	clock := &laterClock{Clock: driver.SystemClock()}
	s := mustOpen(t, []string{srv.Addr()}, etcdstore.WithClock(clock))
	const ttl = 300 * time.Second
	stays, leaves := request("stays", "token"), request("leaves", "token")
	stays.TTL, leaves.TTL = ttl, ttl
	take(t, s, leaves)
	take(t, s, stays)
	extend := func(r driver.Request) {
		t.Helper()
		if _, err := s.Extend(t.Context(), r.Name, r.Token.Text(), ttl); err != nil {
			t.Fatal(err)
		}
	}
	clock.plus.Add(int64(ttl / 5))
	extend(stays)
	extend(leaves) // in the same group
	if out, err := s.Release(t.Context(), leaves.Name, leaves.Token.Text(), 0); out != driver.OutcomeReleased || err != nil {
		t.Fatal(out, err)
	}
	leases, renewals := callCount(t, srv.Addr(), "LeaseGrant"), callCount(t, srv.Addr(), "LeaseKeepAlive")
	for range 3 {
		clock.plus.Add(int64(ttl / 3))
		extend(stays)
	}
	leases, renewals = callCount(t, srv.Addr(), "LeaseGrant")-leases, callCount(t, srv.Addr(), "LeaseKeepAlive")-renewals
	if leases != 0 || renewals != 3 {
		t.Errorf("three renewals of a hold whose group another hold has left: %d renewed leases and %d new ones", renewals, leases)
	}
}

// TestMovesToLaterLeases: an Extend never moves a hold to a lease that ends earlier than its own.
// The grant would promise more than the server keeps.
func TestMovesToLaterLeases(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	clock := &laterClock{Clock: driver.SystemClock()}
	s, c := mustOpen(t, []string{srv.Addr()}, etcdstore.WithClock(clock)), newClient(t, srv.Addr())
	const ttl = 300 * time.Second
	later := func(d time.Duration) { clock.plus.Add(int64(d)) }
	lease := func(name string) int64 {
		t.Helper()
		keys, err := c.Get(t.Context(), "padlock/l/"+name+"/", clientv3.WithPrefix())
		if err != nil || len(keys.Kvs) != 1 {
			t.Fatalf("%+v, %v", keys, err)
		}
		return keys.Kvs[0].Lease
	}
	acquire := func(name string) {
		t.Helper()
		r := request(name, "token")
		r.TTL = ttl
		take(t, s, r)
	}
	extend := func(name string) driver.Grant {
		t.Helper()
		g, err := s.Extend(t.Context(), name, "token", ttl)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	acquire("early") // the first leases last for 310 s
	later(11 * time.Second)
	acquire("late")
	later(2 * time.Second)
	g := extend("early") // makes a lease of 300 s, which others can share for 30 s
	end := g.From.Add(g.TTL)
	later(15 * time.Second)
	if g = extend("late"); lease("late") == lease("early") && g.From.Add(g.TTL) > end {
		t.Errorf("the lease ends at %v, and the grant says %v", end, g.From.Add(g.TTL))
	}
	if g.TTL < ttl*9/10 {
		t.Errorf("Extend for %v: %+v", ttl, g)
	}
}

// TestForeignExtendNeverShortens: a store that extends a hold of another store does not move it to
// a lease that ends earlier.
func TestForeignExtendNeverShortens(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s, other, c := mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	r := request("job", "token")
	r.TTL = 300 * time.Second
	take(t, s, r)
	for range 2 { // the second Extend knows the hold
		g, err := other.Extend(t.Context(), "job", "token", 10*time.Second)
		if err != nil || g.TTL < 100*time.Second {
			t.Errorf("Extend: %+v, %v", g, err)
		}
	}
	keys, err := c.Get(t.Context(), "padlock/l/job/", clientv3.WithPrefix())
	if err != nil || len(keys.Kvs) != 1 {
		t.Fatalf("%+v, %v", keys, err)
	}
	if left, err := c.TimeToLive(t.Context(), clientv3.LeaseID(keys.Kvs[0].Lease)); err != nil || left.TTL < 100 {
		t.Errorf("the lease of 300 s lasts for %+v, %v", left, err)
	}
}

// TestExtendAfterAForeignPromotion: two processes know a hold, and one of them promotes it. Extend
// tells the other process the new mode and fence.
func TestExtendAfterAForeignPromotion(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	s, other := mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()})
	r := request("job", "token")
	r.Shared = true
	take(t, s, r)
	known, err := other.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL)
	if err != nil || !known.Shared {
		t.Errorf("Extend by the other process: %+v, %v", known, err)
	}
	r.Shared = false
	promoted, err := s.Convert(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	// The lease that the other process knows is nearly long enough.
	ttl := known.TTL + 2*time.Second
	if g, err := other.Extend(t.Context(), r.Name, r.Token.Text(), ttl); err != nil || g.Shared || g.Fence != promoted.Fence || g.TTL > 2*ttl {
		t.Errorf("Extend after the promotion to fence %d: %+v, %v", promoted.Fence, g, err)
	}
}
