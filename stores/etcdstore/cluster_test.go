package etcdstore_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// TestTwoClusters: members of two clusters are refused, even if the store sees one of them later.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	one, two := server.Etcd(t, server.EtcdOptions{}), server.Etcd(t, server.EtcdOptions{})
	both := etcdstore.Config{Endpoints: []string{one.Addr(), two.Addr()}}
	check := func(when string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "different clusters") {
			t.Errorf("%s: %v", when, err)
		}
	}
	_, err := etcdstore.Open(t.Context(), both)
	check("Open", err)
	lazy, err := etcdstore.Open(t.Context(), both, etcdstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer lazy.Close()
	_, err = lazy.Acquire(t.Context(), request("job", "one"))
	check("Acquire of a lazy store", err)

	two.Kill()
	s, err := etcdstore.Open(t.Context(), both)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	take(t, s, request("early", "one"))
	two.Restart(true)
	eventually(t, func() error {
		_, err := s.Extend(t.Context(), "early", "one", 0)
		if err == nil {
			return errors.New("the store has not noticed the other cluster")
		}
		if errors.Is(err, driver.ErrInvalid) {
			check("Extend", err)
			return nil
		}
		return err
	})
}

// TestStatusOfTwoClusters: Status names a member of another cluster.
func TestStatusOfTwoClusters(t *testing.T) {
	t.Parallel()
	one, two := server.Etcd(t, server.EtcdOptions{}), server.Etcd(t, server.EtcdOptions{})
	two.Kill()
	s := mustOpen(t, []string{one.Addr(), two.Addr()})
	two.Restart(true)
	findings, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Finding{Name: two.Addr() + " cluster", Value: "another one",
		Advice: "it belongs to another cluster than other members; name the members of one cluster"}
	if !slices.Contains(findings, want) {
		t.Errorf("the findings are %+v", findings)
	}
}

// TestSamePlaceOfEndpoints: an endpoint may be written in several ways. Nothing is sent.
func TestSamePlaceOfEndpoints(t *testing.T) {
	t.Parallel()
	lazy := func(endpoint string) driver.Store { return mustOpen(t, []string{endpoint}, etcdstore.Lazy()) }
	store := lazy("db7:2379")
	for other, want := range map[string]bool{
		"db7:2379": true, "DB7:2379": true, "http://db7:2379": true, "https://db7:2379/": true,
		"db7:2380": false, "http://db8:2379": false, "db70:2379": false,
	} {
		if got := driver.SamePlace(store, lazy(other)); got != want {
			t.Errorf("SamePlace of db7:2379 and %s is %v", other, got)
		}
	}
}

// relay passes connections on to the server whose address *to is at that time.
func relay(t *testing.T, to *atomic.Pointer[string]) (addr string, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conns := make(chan net.Conn, 64)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			srv, err := net.Dial("tcp", *to.Load())
			if err != nil {
				client.Close()
				continue
			}
			conns <- client
			go func() { io.Copy(srv, client); srv.Close() }()
			go func() { io.Copy(client, srv); client.Close() }()
		}
	}()
	return l.Addr().String(), func() {
		for len(conns) > 0 {
			(<-conns).Close()
		}
	}
}

// TestRestoredCluster: a cluster that was restored from a snapshot has another id. The store goes
// on with it.
func TestRestoredCluster(t *testing.T) {
	t.Parallel()
	old, restored := server.Etcd(t, server.EtcdOptions{}).Addr(), server.Etcd(t, server.EtcdOptions{}).Addr()
	var to atomic.Pointer[string]
	to.Store(&old)
	addr, cut := relay(t, &to)
	s := mustOpen(t, []string{addr})
	take(t, s, request("job", "one"))
	to.Store(&restored)
	cut()
	eventually(t, func() error {
		_, err := s.Acquire(t.Context(), request("other", "two"))
		return err
	})
	if _, err := s.Extend(t.Context(), "job", "one", 0); !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrExpired) {
		t.Errorf("Extend of a hold that the restored cluster does not have: %v", err)
	}
}
