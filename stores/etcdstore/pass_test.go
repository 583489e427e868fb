package etcdstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// placesLast are the settings of a server in tests in which no waiter may lose its place. With the
// default, the lease of the places lasts for 2 s, and a busy machine may renew it too late.
var placesLast = server.EtcdOptions{MinLease: 6 * time.Second}

// callCount returns how often the server was called with a method.
func callCount(t testing.TB, addr, method string) (n int) {
	t.Helper()
	reply, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if ok && strings.HasPrefix(name, "grpc_server_started_total{") && strings.Contains(name, strconv.Quote(method)) {
			if n, err = strconv.Atoi(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// A result is what Wait returned to a waiter.
type result struct {
	s   *etcdstore.Store
	r   driver.Request
	g   driver.Grant
	err error
}

// queueUp lets a waiter of each store join the queue, in order.
func queueUp(t testing.TB, name string, stores ...*etcdstore.Store) chan result {
	t.Helper()
	results := make(chan result, len(stores))
	for i, s := range stores {
		r := request(name, fmt.Sprint("waiter ", i))
		go func() {
			g, err := s.Wait(t.Context(), r, true)
			results <- result{s, r, g, err}
		}()
		inQueue(t, s, name, i+1)
	}
	return results
}

// inQueue waits until a name has a number of waiters.
func inQueue(t testing.TB, s *etcdstore.Store, name string, waiters int) {
	t.Helper()
	server.Eventually(t, func() error {
		st, err := s.Inspect(t.Context(), name)
		if err == nil && st.Waiters != waiters {
			err = fmt.Errorf("%d waiters instead of %d", st.Waiters, waiters)
		}
		return err
	})
}

// TestHandOvers: from the second waiter on, a hand-over is one transaction, and nothing is left
// behind in the end.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	first, c := mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	var stores []*etcdstore.Store
	for range 8 {
		stores = append(stores, mustOpen(t, []string{srv.Addr()}))
	}
	n := handOvers(t, srv, "job", first, stores)
	reply, err := c.Get(t.Context(), "padlock/l/", clientv3.WithPrefix())
	if err != nil || len(reply.Kvs) != 0 {
		t.Fatalf("left behind: %v, %v", reply.Kvs, err)
	}
	// The first waiter takes the name itself. It may look at the queue once more.
	if n > len(stores)+2 {
		t.Fatalf("%d transactions for %d hand-overs", n, len(stores))
	}
}

// handOvers lets each store wait for a name, and returns how many transactions the hand-overs take.
func handOvers(t *testing.T, srv *server.Server, name string, first *etcdstore.Store, stores []*etcdstore.Store) int {
	t.Helper()
	last := take(t, first, request(name, "first")).Fence
	results := queueUp(t, name, stores...)
	before := callCount(t, srv.Addr(), "Txn")
	if _, err := first.Release(t.Context(), name, "first", 0); err != nil {
		t.Fatal(err)
	}
	for range stores {
		w := <-results
		if w.err != nil || w.g.Fence <= last || w.g.TTL <= driver.MaxReservation || w.g.From == 0 {
			t.Fatalf("after fence %d the next waiter gets %+v, %v", last, w.g, w.err)
		}
		last = w.g.Fence
		if o, err := w.s.Release(t.Context(), name, w.r.Token, 0); err != nil || o != driver.OutcomeReleased {
			t.Fatalf("Release of a hold that was handed over: %v, %v", o, err)
		}
	}
	n := callCount(t, srv.Addr(), "Txn") - before
	again := request(name, "again")
	if g := take(t, first, again); g.Fence <= last {
		t.Errorf("after fence %d came %d", last, g.Fence)
	}
	if _, err := first.Release(t.Context(), name, again.Token, 0); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHandedOverHold: a hold that was handed over names its holder, outlives the lease of the
// places in the queue, and gets its full lease with Extend, or without it.
func TestHandedOverHold(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	first := mustOpen(t, []string{srv.Addr()})
	for _, extended := range []bool{false, true} {
		name := fmt.Sprint("job ", extended)
		take(t, first, request(name, "first"))
		results := queueUp(t, name, mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()}))
		if _, err := first.Release(t.Context(), name, "first", 0); err != nil {
			t.Fatal(err)
		}
		w := <-results
		w.s.Release(t.Context(), name, w.r.Token, 0)
		if w = <-results; w.err != nil || w.g.TTL >= w.r.TTL {
			t.Fatalf("the second waiter gets %+v, %v; want a hold whose lease is short at first", w.g, w.err)
		}
		if all, err := first.List(t.Context(), name); err != nil || len(all) != 1 || len(all[0].Holds) != 1 || all[0].Holds[0].Host != w.r.Holder.Host {
			t.Errorf("List right after the name was handed over: %+v, %v", all, err)
		}
		if extended {
			if g, err := w.s.Extend(t.Context(), name, w.r.Token, w.r.TTL); err != nil || g.TTL < w.r.TTL || g.Fence != w.g.Fence {
				t.Errorf("Extend of a hold that was handed over: %+v, %v; it had fence %d", g, err, w.g.Fence)
			}
		}
		server.Eventually(t, func() error {
			st, err := first.Inspect(t.Context(), name)
			switch {
			case err != nil:
				return err
			case len(st.Holds) != 1 || st.Holds[0].Host != w.r.Holder.Host || st.Fence != w.g.Fence || st.Waiters != 0:
				t.Fatalf("Inspect of a hold that was handed over: %+v", st)
			case time.Until(st.Holds[0].Until) < w.r.TTL/2:
				return fmt.Errorf("the lease ends at %v", st.Holds[0].Until)
			}
			return nil
		})
		if _, err := first.Acquire(t.Context(), request(name, "other")); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("Acquire of a name that was handed over: %v", err)
		}
		if o, err := w.s.Release(t.Context(), name, w.r.Token, 0); err != nil || o != driver.OutcomeReleased {
			t.Errorf("Release: %v, %v", o, err)
		}
	}
}

// TestReleaseOfALostHold: a Release does not pass on a hold whose lease has ended, even if the
// hold's place in the queue is still there. The next waiter takes the name itself.
func TestReleaseOfALostHold(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, placesLast)
	stores := []*etcdstore.Store{mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()})}
	c := newClient(t, srv.Addr())
	take(t, stores[0], request("job", "first"))
	results := queueUp(t, "job", stores[1:]...)
	if _, err := stores[0].Release(t.Context(), "job", "first", 0); err != nil {
		t.Fatal(err)
	}
	w := <-results
	if _, err := w.s.Extend(t.Context(), "job", w.r.Token, 400*time.Second); w.err != nil || err != nil { // to a shared lease
		t.Fatal(w.err, err)
	}
	key, err := c.Get(t.Context(), "padlock/l/job/k/")
	if err == nil && len(key.Kvs) == 1 {
		_, err = c.Revoke(t.Context(), clientv3.LeaseID(key.Kvs[0].Lease))
	}
	if err != nil || len(key.Kvs) != 1 {
		t.Fatal(key, err)
	}
	if o, err := w.s.Release(t.Context(), "job", w.r.Token, 0); err != nil || o != driver.OutcomeExpired {
		t.Errorf("Release: %v, %v; want %v", o, err, driver.OutcomeExpired)
	}
	if next := <-results; next.err != nil || next.g.Fence <= w.g.Fence {
		t.Errorf("the next waiter: %+v, %v", next.g, next.err)
	}
}
