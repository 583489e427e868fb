package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// TestTwoClusters: members of two clusters are refused, even if the store sees one of them later.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	one, two := server.Etcd(t, server.EtcdOptions{}), server.Etcd(t, server.EtcdOptions{})
	both := etcdstore.Config{Endpoints: []string{one.Addr(), two.Addr()}}
	// refused calls f until it refuses the members. On a slow machine a member may be silent for
	// longer than the 300 ms for which a new client asks. The store then knows of one cluster only.
	refused := func(f func(context.Context) error) {
		t.Helper()
		server.Eventually(t, func() error {
			err := f(t.Context())
			if errors.Is(err, driver.ErrInvalid) && strings.Contains(err.Error(), "different clusters") {
				return nil
			}
			return fmt.Errorf("the store did not refuse the members: %v", err)
		})
	}
	accepted := func(began time.Time) {
		if d := time.Since(began); d < 250*time.Millisecond {
			t.Errorf("two clusters were accepted within %v, so no member was silent", d)
		}
	}
	refused(func(ctx context.Context) error {
		began := time.Now()
		s, err := etcdstore.Open(ctx, both)
		if err == nil {
			accepted(began)
			s.Close()
		}
		return err
	})
	refused(func(ctx context.Context) error {
		began := time.Now()
		lazy, err := etcdstore.Open(ctx, both, etcdstore.Lazy())
		if err != nil {
			return err
		}
		defer lazy.Close()
		if _, err = lazy.Acquire(ctx, request("job", "one")); err == nil {
			accepted(began)
		}
		return err
	})

	two.Kill()
	s := mustOpen(t, both.Endpoints)
	take(t, s, request("early", "one"))
	two.Restart(true)
	refused(func(ctx context.Context) error {
		_, err := s.Extend(ctx, "early", "one", 0)
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
	want := driver.Finding{Name: two.Addr() + " cluster", Value: "another one",
		Advice: "it belongs to another cluster than other members; name the members of one cluster"}
	server.Eventually(t, func() error { // a member may be silent for a while
		findings, err := s.Status(t.Context())
		if err == nil && !slices.Contains(findings, want) {
			err = fmt.Errorf("the findings are %+v", findings)
		}
		return err
	})
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
	server.Thorough(t)
	t.Parallel()
	old, restored := server.Etcd(t, server.EtcdOptions{}).Addr(), server.Etcd(t, server.EtcdOptions{}).Addr()
	var to atomic.Pointer[string]
	to.Store(&old)
	addr, cut := relay(t, &to)
	s := mustOpen(t, []string{addr})
	take(t, s, request("job", "one"))
	to.Store(&restored)
	cut()
	server.Eventually(t, func() error {
		_, err := s.Acquire(t.Context(), request("other", "two"))
		return err
	})
	if _, err := s.Extend(t.Context(), "job", "one", 0); !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrExpired) {
		t.Errorf("Extend of a hold that the restored cluster does not have: %v", err)
	}
}
