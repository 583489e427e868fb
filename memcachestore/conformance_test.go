package memcachestore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/memcachestore"
)

func mustOpen(t testing.TB, addr string, opts ...memcachestore.Option) *memcachestore.Store {
	t.Helper()
	s, err := memcachestore.Open(t.Context(), memcachestore.Config{Addr: addr}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A bench is a server with a proxy for each store.
type bench struct {
	srv  *server.Server
	opts []memcachestore.Option
	mu   sync.Mutex
	by   map[driver.Store]*server.Proxy
	made chan *server.Proxy
}

// newBench starts the proxies before the suite calls open, because the suite counts the goroutines
// that open starts.
func newBench(t testing.TB, srv *server.Server, opts ...memcachestore.Option) *bench {
	b := &bench{srv: srv, opts: opts, by: map[driver.Store]*server.Proxy{}, made: make(chan *server.Proxy)}
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
	through := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, p.Addr())
	}
	s, err := memcachestore.Open(ctx, memcachestore.Config{Addr: b.srv.Addr(), Dial: through}, b.opts...)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by[s] = p
	return s, nil
}

func (b *bench) proxy(s driver.Store) *server.Proxy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[s]
}

func (b *bench) harness() drivertest.Harness {
	return drivertest.Harness{
		Open:          b.open,
		CutConnection: func(s driver.Store) error { b.proxy(s).Cut(); return nil },
		LoseReply:     func(s driver.Store) error { b.proxy(s).LoseReply(changes); return nil },
		Restart: func(keep bool) error {
			b.srv.Kill()
			b.srv.Restart(keep)
			return nil
		},
		Pause: func() (func() error, error) {
			b.srv.Pause()
			return func() error { b.srv.Resume(); return nil }, nil
		},
	}
}

// changes reports whether a request can change a lock.
func changes(request []byte) bool {
	return bytes.HasPrefix(request, []byte("ms ")) || bytes.HasPrefix(request, []byte("md "))
}

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, newBench(t, server.Memcached(t)).harness())
}

func TestContractInSymfonysLayout(t *testing.T) {
	t.Parallel()
	h := newBench(t, server.Memcached(t), memcachestore.SymfonyLayout()).harness()
	h.Anonymous = true
	drivertest.Run(t, h)
}

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: token, TTL: time.Minute, Holder: driver.Holder{Host: "here", PID: 7, Label: token}}
}

func take(t testing.TB, s *memcachestore.Store, r driver.Request) {
	t.Helper()
	if _, err := s.Acquire(t.Context(), r); err != nil {
		t.Fatalf("Acquire %q: %v", r.Name, err)
	}
}

func refused(t testing.TB, s *memcachestore.Store, r driver.Request) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire %q: %v; want a HeldError", r.Name, err)
	}
	return held
}

func release(t testing.TB, s *memcachestore.Store, r driver.Request, want driver.Outcome) {
	t.Helper()
	if got, err := s.Release(t.Context(), r.Name, r.Token, 0); got != want || err != nil {
		t.Fatalf("Release %q: %v, %v; want %v", r.Name, got, err, want)
	}
}
