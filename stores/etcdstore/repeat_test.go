package etcdstore_test

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// leftOf returns how long the lease of the only hold of a name lasts.
func leftOf(t *testing.T, c *clientv3.Client, name string) time.Duration {
	t.Helper()
	keys, err := c.Get(t.Context(), "padlock/l/"+name+"/", clientv3.WithPrefix())
	if err != nil || len(keys.Kvs) != 1 {
		t.Fatalf("%d keys, %v", len(keys.Kvs), err)
	}
	reply, err := c.TimeToLive(t.Context(), clientv3.LeaseID(keys.Kvs[0].Lease))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(reply.TTL) * time.Second
}

// A hold never moves to a lease that ends earlier, whichever process asks: not by a repeat, an
// Extend or a Convert, and not if the other process renews its own lease without touching the key.
func TestNobodyShortensALease(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	a, b, c := mustOpen(t, []string{srv.Addr()}), mustOpen(t, []string{srv.Addr()}), newClient(t, srv.Addr())
	const long, short = 300 * time.Second, 2 * time.Second
	ways := map[string]func(s *etcdstore.Store, r driver.Request) error{
		"Acquire": func(s *etcdstore.Store, r driver.Request) error { _, err := s.Acquire(t.Context(), r); return err },
		"Extend": func(s *etcdstore.Store, r driver.Request) error {
			_, err := s.Extend(t.Context(), r.Name, r.Token.Text(), r.TTL)
			return err
		},
		"Convert": func(s *etcdstore.Store, r driver.Request) error { _, err := s.Convert(t.Context(), r); return err },
		"Demote": func(s *etcdstore.Store, r driver.Request) error {
			r.Shared = true
			_, err := s.Convert(t.Context(), r)
			return err
		},
	}
	for way, f := range ways {
		for _, story := range []string{"taken for long", "extended by another", "extended by another after a look"} {
			r := request(way+"-"+strings.ReplaceAll(story, " ", "-"), "one")
			r.TTL = long
			if story != "taken for long" {
				r.TTL = short
			}
			take(t, a, r)
			by := b
			if story != "taken for long" {
				if by = a; story == "extended by another after a look" {
					by = b
					if _, err := b.Extend(t.Context(), r.Name, r.Token.Text(), 0); err != nil { // so b knows the hold
						t.Fatal(err)
					}
				}
				other := map[*etcdstore.Store]*etcdstore.Store{a: b, b: a}[by]
				if _, err := other.Extend(t.Context(), r.Name, r.Token.Text(), long); err != nil {
					t.Fatal(err)
				}
			}
			r.TTL = short
			if err := f(by, r); err != nil {
				t.Errorf("%s, %s: %v", way, story, err)
			}
			if left := leftOf(t, c, r.Name); left < long-20*time.Second {
				safety.Broken(t, "%s: after a short %s, %v of %v are left", story, way, left, long)
			}
		}
	}
}
