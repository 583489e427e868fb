package etcdstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

// viaProxies opens a store that reaches one server at three addresses, as if it had three members.
func viaProxies(t *testing.T, srv *server.Server) (*Store, []*server.Proxy) {
	t.Helper()
	var proxies []*server.Proxy
	var addresses []string
	for range 3 {
		p := server.NewProxy(t, srv.Addr())
		proxies, addresses = append(proxies, p), append(addresses, p.Addr())
	}
	s := openedWith(t, Config{Endpoints: addresses})
	server.Eventually(t, func() error { _, err := s.Acquire(t.Context(), requestFor("job", "one")); return err })
	return s, proxies
}

func (s *Store) presentClient() *etcdClient {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.conn.client
}

// TestSilentMember: one member of three is silent, and stays so. After a slow call the store uses
// the other members only.
func TestSilentMember(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	s, proxies := viaProxies(t, server.Etcd(t, server.EtcdOptions{}))
	old := s.presentClient()
	proxies[1].Silence(true)
	t.Cleanup(func() { proxies[1].Silence(false) })
	server.Eventually(t, func() error {
		if _, err := s.Extend(t.Context(), "job", "one", 0); err != nil && !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		if c := s.presentClient(); c == old || c == nil {
			return errors.New("the store still uses the client that has a silent member")
		}
		return nil
	})
	failed := 0
	for range 30 {
		if _, err := s.Extend(t.Context(), "job", "one", 0); err != nil {
			failed++
		}
	}
	if failed > 3 { // the silent member would get 10 of the requests
		t.Errorf("after the store has noticed a silent member, %d of 30 calls failed", failed)
	}
}

// TestAllMembersSilent: if all members are silent, the store keeps its client.
func TestAllMembersSilent(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	s, proxies := viaProxies(t, server.Etcd(t, server.EtcdOptions{}))
	old := s.presentClient()
	silence := func(on bool) {
		for _, p := range proxies {
			p.Silence(on)
		}
	}
	silence(true)
	t.Cleanup(func() { silence(false) })
	if _, err := s.Extend(t.Context(), "job", "one", 0); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Extend while all members are silent: %v", err)
	}
	server.Eventually(t, func() error { // the call may end before the store begins to ask
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		if s.conn.askedAt.IsZero() {
			return errors.New("the store has not asked the members")
		}
		return nil
	})
	if s.presentClient() != old {
		t.Error("the store does not keep its client")
	}
}

// TestTimeLeftInAnotherCluster: the remaining time of a lease counts only if the same cluster says
// it.
func TestTimeLeftInAnotherCluster(t *testing.T) {
	t.Parallel()
	s := opened(t, server.Etcd(t, server.EtcdOptions{}).Addr())
	id, _, err := s.conn.grantLease(t.Context(), 0, 60)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := s.conn.timeLeft(t.Context(), id); left <= 0 {
		t.Errorf("a new lease of 60 s has %v left", left)
	}
	client := s.presentClient()
	client.cluster.Add(1) // as if an earlier reply had come from another cluster
	if left, _ := s.conn.timeLeft(t.Context(), id); left != 0 {
		t.Errorf("%v are left, as another cluster says", left)
	}
	if s.presentClient() == client {
		t.Error("the store still uses the client")
	}
}

// TestStrandedConnections: the network forgets the connections of a client, and the members answer
// new ones. The store notices that long before gRPC does, also with one member.
func TestStrandedConnections(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	for _, members := range []int{1, 3} {
		proxy := server.NewProxy(t, srv.Addr())
		addresses := slices.Repeat([]string{proxy.Addr()}, members)
		s := openedWith(t, Config{Endpoints: addresses})
		name := fmt.Sprint("job ", members)
		server.Eventually(t, func() error { _, err := s.Acquire(t.Context(), requestFor(name, "one")); return err })
		old := s.presentClient()
		proxy.Strand()
		began := time.Now()
		server.Eventually(t, func() error { _, err := s.Extend(t.Context(), name, "one", 0); return err })
		if s.presentClient() == old {
			t.Errorf("%d members: the store has kept its client", members)
		}
		if took := time.Since(began); took > probeAfter {
			t.Errorf("%d members: the first call succeeded after %v", members, took)
		}
	}
}
