package etcdstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/etcdstore"
)

func open(ctx context.Context, endpoint string, opts ...etcdstore.Option) (driver.Store, error) {
	s, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: []string{endpoint}}, opts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func mustOpen(t testing.TB, endpoints []string, opts ...etcdstore.Option) *etcdstore.Store {
	t.Helper()
	var s *etcdstore.Store
	server.Eventually(t, func() (err error) { // a cluster may elect a leader meanwhile
		s, err = etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: endpoints}, opts...)
		return err
	})
	t.Cleanup(func() { s.Close() })
	return s
}

// unanswered reports whether a call failed because no server answered in time. A server on a busy
// machine may be silent for longer than the store waits.
func unanswered(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain)
}

// statusOf returns the status as a text. A member has 2 s for its answer.
func statusOf(t testing.TB, s *etcdstore.Store) string {
	t.Helper()
	found, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(found)
}

func openWith(t testing.TB, c etcdstore.Config, opts ...etcdstore.Option) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(t.Context(), c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	drivertest.Run(t, drivertest.Harness{
		Open:     func(ctx context.Context) (driver.Store, error) { return open(ctx, srv.Addr()) },
		Slow:     true,
		Parallel: 64,
	})
}

// A bench is a server with a proxy in front of it for each store.
type bench struct {
	srv *server.Server
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server) *bench {
	return &bench{srv: srv, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) { return open(ctx, addr) })
}

// aData reports whether a request contains a data frame of HTTP/2. Each call of gRPC sends such a
// frame last.
func aData(request []byte) bool {
	for len(request) >= 9 {
		length := int(request[0])<<16 | int(request[1])<<8 | int(request[2])
		if request[3] == 0 && length > 0 {
			return true
		}
		request = request[min(len(request), 9+length):]
	}
	return false
}

// aboutKeys reports whether a request is about the keys of locks. A renewal of a lease is not. It
// may be sent at any time, and the tests shall lose the reply to another request.
func aboutKeys(request []byte) bool {
	return aData(request) && bytes.Contains(request, []byte("padlock/"))
}

func TestFaults(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	b := newBench(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open:          b.open,
		Slow:          true,
		Alone:         true, // TestContract runs the other cases
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(aboutKeys),
		Restart:       srv.Crash,
		Pause:         srv.Freeze,
	})
}
