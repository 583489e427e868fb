package zkstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// A free name has only one small node, without children, even after many locks, waits and
// promotions.
func leftOfFreeNames(t *testing.T, srv *server.Server) {
	conn := rawConn(t, srv.Addr())
	s := mustOpen(t, srv.Addr(), zkstore.Root("/left"))
	const names = 20
	isFree := func(node string) bool {
		children, _, err := conn.Children("/left/" + node)
		return err == nil && len(children) == 0
	}
	for round := range 3 {
		for i := range names {
			name := fmt.Sprint("name-", i)
			r := request(name)
			take(t, s, r)
			refused(t, s, request(name))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round)*time.Millisecond)
			s.Wait(ctx, request(name), true)
			cancel()
			release(t, s, r)
			waitUntil(t, "the waiter has left the queue", func() bool { return isFree(name) })
			promoteDemote(t, s, name)
		}
	}
	nodes, _, err := conn.Children("/left")
	if err != nil || len(nodes) != names {
		t.Fatalf("%d names left %d nodes, %v", names, len(nodes), err)
	}
	for _, node := range nodes {
		waitUntil(t, "a node without children", func() bool { return isFree(node) })
		if data, _, err := conn.Get("/left/" + node); err != nil || len(data) > 64 {
			t.Errorf("the node has %d bytes, %v", len(data), err)
		}
	}
}

// TestTLS: Config.Dial can encrypt, and a server with the certificate of another authority is
// refused.
func TestTLS(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	certificate := server.NewTLS(t)
	file := filepath.Join(t.TempDir(), "server.pem")
	if err := os.WriteFile(file, append(certificate.Key, certificate.Cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := server.ZooKeeper(t, server.ZooKeeperOptions{Conf: []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"client.portUnification=true", "ssl.clientAuth=none",
		"ssl.keyStore.location=" + file, "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + file, "ssl.trustStore.type=PEM",
	}})
	var encrypted atomic.Int64
	dial := func(c *tls.Config) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, network, addr)
			if err == nil && conn.(*tls.Conn).ConnectionState().HandshakeComplete {
				encrypted.Add(1)
			}
			return conn, err
		}
	}
	s := mustOpenAt(t, zkstore.Config{Servers: []string{srv.Addr()}, Dial: dial(certificate.Client())})
	r := request("job")
	g := take(t, s, r)
	refused(t, s, request("job"))
	release(t, s, r)
	if g.Fence == 0 || encrypted.Load() == 0 {
		t.Errorf("fence %d over %d encrypted connections", g.Fence, encrypted.Load())
	}
	stranger := zkstore.Config{Servers: []string{srv.Addr()}, Dial: dial(server.NewTLS(t).Client())}
	if _, err := zkstore.Open(t.Context(), stranger, zkstore.SessionTimeout(short)); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("with a certificate of another authority: %v", err)
	}
}
