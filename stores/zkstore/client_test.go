package zkstore_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// docs/stores/zookeeper.md has this function. pages:TestFunctions compares them.

func openLike(ctx context.Context, servers []string, timeout time.Duration, digest string, dial zk.Dialer) (*zkstore.Store, error) {
	user, password, _ := strings.Cut(digest, ":")
	c := zkstore.Config{Servers: servers, Credentials: zkstore.Login(user, password)}
	if dial != nil { // with zk.WithDialer, for example for TLS
		c.Dial = func(_ context.Context, network, addr string) (net.Conn, error) {
			return dial(network, addr, time.Second)
		}
	}
	return zkstore.Open(ctx, c, zkstore.SessionTimeout(timeout))
}

// TestSettingsOfAClient opens a store with the settings of a client, which has a user and a dialer.
func TestSettingsOfAClient(t *testing.T) {
	t.Parallel()
	var dialed atomic.Int64
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		dialed.Add(1)
		return net.DialTimeout(network, address, timeout)
	}
	servers := []string{server.ZooKeeper(t, server.ZooKeeperOptions{}).Addr()}
	var s *zkstore.Store
	whileUncertain(t, "Open", func() (err error) {
		s, err = openLike(t.Context(), servers, patient, "app:secret", dial)
		return err
	})
	defer s.Close()
	take(t, s, request("job"))
	if dialed.Load() == 0 {
		t.Error("the dialer was not called")
	}
	conn, _, err := zk.Connect(servers, patient, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, _, err = conn.Children("/padlock"); err != zk.ErrNoAuth {
		t.Errorf("a client without the user reads /padlock: %v", err)
	}
	if err := conn.AddAuth("digest", []byte("app:secret")); err != nil {
		t.Fatal(err)
	}
	if all, _, err := conn.Children("/padlock"); err != nil || len(all) == 0 {
		t.Errorf("the client with the user sees %v, %v", all, err)
	}
}
