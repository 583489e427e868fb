package etcdstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

// TestDial: Config.Dial makes every connection, also those with which a store asks each member for
// its cluster. It gets the addresses of the endpoints, which only Dial can reach here.
func TestDial(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	var mu sync.Mutex
	dialed := map[string]int{}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed[network+" "+address]++
		mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, srv.Addr())
	}
	endpoints := []string{"127.0.0.1:1", "127.0.0.1:2"}
	config := etcdstore.Config{Endpoints: []string{endpoints[0], "http://" + endpoints[1]}, Dial: dial}
	s := openWith(t, config)
	r := driver.Request{Name: "job", Token: driver.TokenOf("token"), TTL: time.Minute}
	if g := take(t, s, r); g.TTL == 0 {
		t.Fatalf("Acquire: %+v", g)
	}
	if _, err := s.Release(t.Context(), "job", "token", 0); err != nil {
		t.Error(err)
	}
	server.Eventually(t, func() error { // the client connects to its endpoints in the background
		mu.Lock()
		defer mu.Unlock()
		for _, e := range endpoints {
			if dialed["tcp "+e] == 0 {
				return fmt.Errorf("Dial was not called with tcp and %s; it was called with %v", e, dialed)
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	for call := range dialed {
		if !slices.Contains(endpoints, call[len("tcp "):]) {
			t.Errorf("Dial was called with %s", call)
		}
	}
}
