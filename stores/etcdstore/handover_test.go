package etcdstore_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
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

// TestHandOvers: a hand-over is two transactions, a Release and a claim, and nothing is left behind
// in the end.
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
	// The first waiter may look at the queue once more.
	if n > 2*len(stores)+2 {
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
		if w.err != nil || !safety.Rises(t, w.g.Fence, last) || w.g.TTL <= driver.MaxReservation || w.g.From == 0 {
			t.Fatalf("after fence %d the next waiter gets %+v, %v", last, w.g, w.err)
		}
		last = w.g.Fence
		if o, err := w.s.Release(t.Context(), name, w.r.Token.Text(), 0); err != nil || o != driver.OutcomeReleased {
			t.Fatalf("Release of a hold that was handed over: %v, %v", o, err)
		}
	}
	n := callCount(t, srv.Addr(), "Txn") - before
	again := request(name, "again")
	safety.Rises(t, take(t, first, again).Fence, last)
	if _, err := first.Release(t.Context(), name, again.Token.Text(), 0); err != nil {
		t.Fatal(err)
	}
	return n
}
