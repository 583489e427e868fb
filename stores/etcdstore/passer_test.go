package etcdstore

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// placesLast are the settings of a server in tests in which no waiter may lose its place. With the
// default, the lease of the places lasts for 2 s, and a busy machine may renew it too late.
var placesLast = server.EtcdOptions{MinLease: 6 * time.Second}

// passed passes a name on, and checks that the next request was granted.
func passed(t *testing.T, s *Store, name, from, to string) driver.Grant {
	t.Helper()
	out, g, err := s.Pass(t.Context(), from, requestFor(name, to))
	if err != nil || out != driver.OutcomeReleased || g.TTL == 0 {
		t.Fatalf("Pass from %s to %s: %v, %+v, %v", from, to, out, g, err)
	}
	return g
}

// TestPassIsOneRequest: Pass sends one request, also for a hold that came from the queue, and
// leaves nothing behind.
func TestPassIsOneRequest(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	holder := opened(t, srv.Addr())
	s, k := slowed(t, srv.Addr())
	for _, waited := range []bool{false, true} {
		name := fmt.Sprint("waited ", waited)
		if !waited {
			if _, err := s.Acquire(t.Context(), requestFor(name, "waiter")); err != nil {
				t.Fatal(err)
			}
		} else {
			if _, err := holder.Acquire(t.Context(), requestFor(name, "holder")); err != nil {
				t.Fatal(err)
			}
			_, done := startWait(t, s, name)
			server.Eventually(t, func() error { return hasWaiters(t, holder, name, 1) })
			holder.Release(t.Context(), name, "holder", 0)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		before, _ := k.doneSince(0, name)
		from, fence := "waiter", uint64(0)
		for i := range 10 {
			to := fmt.Sprint("next ", i)
			g := passed(t, s, name, from, to)
			if g.Fence <= fence || g.TTL < time.Minute {
				t.Errorf("after fence %d, Pass granted %+v", fence, g)
			}
			from, fence = to, g.Fence
		}
		if after, _ := k.doneSince(before, name); after != before+10 {
			t.Errorf("%s: %d requests for 10 calls of Pass", name, after-before)
		}
		s.Release(t.Context(), name, from, 0)
		client, err := s.conn.getClient(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reply, err := client.Get(t.Context(), s.cfg.keysOf(name).dir, clientv3.WithPrefix())
		if err != nil || len(reply.Kvs) != 0 {
			t.Errorf("%s: left behind: %v, %v", name, reply.Kvs, err)
		}
	}
}

// TestJoinWhilePassing: a waiter of another process joins the queue although the name is passed on
// between its requests. The next Pass then gives the name to that waiter.
func TestJoinWhilePassing(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	holder := opened(t, srv.Addr())
	other, k := slowed(t, srv.Addr())
	const name = "job"
	if _, err := holder.Acquire(t.Context(), requestFor(name, "0")); err != nil {
		t.Fatal(err)
	}
	k.dropNext(func(r *pb.TxnRequest) bool { return writes(r, "/"+name+"/a/") })
	giveUp, done := startWait(t, other, name)
	join := <-k.held
	for i := range 3 {
		passed(t, holder, name, fmt.Sprint(i), fmt.Sprint(i+1))
	}
	reply, err := k.KVClient.Txn(t.Context(), join)
	if err != nil || !reply.Succeeded {
		t.Errorf("a request for a place, after the name was passed on: %v, %v", reply.GetSucceeded(), err)
	}
	out, g, err := holder.Pass(t.Context(), "3", requestFor(name, "4"))
	if err != nil || out != driver.OutcomeReleased || g.TTL != 0 {
		t.Errorf("Pass while another process waits: %v, %+v, %v", out, g, err)
	}
	giveUp()
	<-done
	checkFree(t, holder, name)
}

// TestPassAfterItsPlaceHasEnded: the place in the queue of a hold has ended before the hold, and
// another waiter of the store has the same key for its place. Pass gives the name to that waiter.
func TestPassAfterItsPlaceHasEnded(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	holder, s := opened(t, srv.Addr()), opened(t, srv.Addr())
	if _, err := holder.Acquire(t.Context(), requestFor("job", "holder")); err != nil {
		t.Fatal(err)
	}
	_, first := startWait(t, s, "job")
	server.Eventually(t, func() error { return hasWaiters(t, holder, "job", 1) })
	holder.Release(t.Context(), "job", "holder", 0)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	own := s.holds.find("job", idOf("waiter")).ownPlace.key
	client, err := s.conn.getClient(t.Context())
	if err == nil {
		_, err = client.Delete(t.Context(), own)
	}
	if err != nil || own == "" {
		t.Fatalf("the place %q: %v", own, err)
	}
	second := make(chan driver.Grant, 1)
	go func() {
		g, _ := s.Wait(t.Context(), requestFor("job", "second"), true)
		second <- g
	}()
	server.Eventually(t, func() error { return hasWaiters(t, holder, "job", 1) })
	if out, g, err := s.Pass(t.Context(), "waiter", requestFor("job", "next")); err != nil || out != driver.OutcomeReleased || g.TTL != 0 {
		t.Errorf("Pass while somebody waits: %v, %+v, %v", out, g, err)
	}
	if g := <-second; g.TTL == 0 {
		t.Error("the waiter did not get the name")
	}
}
