package etcdstore_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/etcdstore"
	"github.com/padlock-go/padlock/internal/server"
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
	s, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: endpoints}, opts...)
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
	srv  *server.Server
	mu   sync.Mutex
	by   map[driver.Store]*server.Proxy
	made chan *server.Proxy
}

// newBench starts the proxies. The method open cannot do that, because the suite counts the
// goroutines that open starts.
func newBench(t testing.TB, srv *server.Server) *bench {
	b := &bench{srv: srv, by: map[driver.Store]*server.Proxy{}, made: make(chan *server.Proxy)}
	var wg sync.WaitGroup
	ctx := t.Context()
	wg.Go(func() {
		for ctx.Err() == nil {
			p := server.NewProxy(t, srv.Addr())
			select {
			case b.made <- p:
			case <-ctx.Done():
				p.Close()
			}
		}
	})
	t.Cleanup(wg.Wait)
	return b
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	p := <-b.made
	s, err := open(ctx, p.Addr())
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.by[s] = p
	}
	return s, err
}

func (b *bench) proxy(s driver.Store) *server.Proxy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[s]
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
	t.Parallel()
	srv := server.Etcd(t, server.EtcdOptions{})
	b := newBench(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open:          b.open,
		Slow:          true,
		Alone:         true, // TestContract runs the other cases
		CutConnection: func(s driver.Store) error { b.proxy(s).Cut(); return nil },
		LoseReply:     func(s driver.Store) error { b.proxy(s).LoseReply(aboutKeys); return nil },
		Restart: func(keep bool) error {
			srv.Kill()
			srv.Restart(keep)
			return nil
		},
		Pause: func() (func() error, error) {
			srv.Pause()
			return func() error { srv.Resume(); return nil }, nil
		},
	})
}
