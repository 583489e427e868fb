package memcachestore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memcachestore"
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
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server, opts ...memcachestore.Option) *bench {
	return &bench{srv: srv, opts: opts, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		through := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		return memcachestore.Open(ctx, memcachestore.Config{Addr: b.srv.Addr(), Dial: through}, b.opts...)
	})
}

func (b *bench) harness() drivertest.Harness {
	return drivertest.Harness{
		Open:          b.open,
		CutConnection: b.Cut,
		LoseReply:     b.LoseReply(changes),
		Restart:       b.srv.Crash,
		Pause:         b.srv.Freeze,
	}
}

// changes reports whether a request can change a lock.
func changes(request []byte) bool {
	return bytes.HasPrefix(request, []byte("ms ")) || bytes.HasPrefix(request, []byte("md "))
}

// The first tier does not kill or freeze the server. Leases have whole seconds, so most cases wait.
func TestContract(t *testing.T) {
	t.Parallel()
	h := newBench(t, server.Memcached(t)).harness()
	if h.Parallel = 128; !server.IsThorough() {
		h.Restart, h.Pause = nil, nil
	}
	drivertest.Run(t, h)
}

func TestContractInSymfonysLayout(t *testing.T) {
	server.Thorough(t)
	t.Parallel()
	h := newBench(t, server.Memcached(t), memcachestore.SymfonyLayout()).harness()
	h.Anonymous = true
	drivertest.Run(t, h)
}

func request(name, token string) driver.Request {
	return driver.Request{Name: name, Token: driver.TokenOf(token), TTL: time.Minute, Holder: driver.Holder{Host: "here", PID: 7, Label: token}}
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
	safety.Refused(t, err, r.Name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire %q: %v; want a HeldError", r.Name, err)
	}
	return held
}

func release(t testing.TB, s *memcachestore.Store, r driver.Request, want driver.Outcome) {
	t.Helper()
	got, err := s.Release(t.Context(), r.Name, r.Token.Text(), 0)
	if got != want || err != nil {
		t.Fatalf("Release %q: %v, %v; want %v", r.Name, got, err, want)
	}
}
