package zkstore_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/zkstore"
)

func contract(t *testing.T, srv *server.Server) {
	drivertest.Run(t, drivertest.Harness{
		Open:     func(ctx context.Context) (driver.Store, error) { return open(ctx, srv.Addr()) },
		Slow:     true,
		Parallel: 16,
	})
}

func contractWithoutFences(t *testing.T, srv *server.Server) {
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return open(ctx, srv.Addr(), zkstore.NoFences(), zkstore.Root("/plain/locks"))
		},
		Slow:     true,
		Parallel: 16,
	})
}

// short is the session timeout in tests in which sessions end.
const short = 2 * time.Second

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
	s, err := open(ctx, p.Addr(), zkstore.SessionTimeout(short))
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

// cut keeps a store away from its server for longer than its session.
func (b *bench) cut(s driver.Store) error {
	p := b.proxy(s)
	p.Silence(true)
	p.Cut()
	time.AfterFunc(short*3/2, func() { p.Silence(false) })
	return nil
}

// requests returns the codes of the requests in data that a client sent.
func requests(data []byte) (codes []uint32) {
	for len(data) >= 12 {
		codes = append(codes, binary.BigEndian.Uint32(data[8:]))
		data = data[min(len(data), 4+int(binary.BigEndian.Uint32(data))):]
	}
	return codes
}

// The codes of ZooKeeper's requests.
const (
	create   = 1
	remove   = 2
	exists   = 3
	getData  = 4
	setData  = 5
	syncPath = 9
	children = 12
	multi    = 14
)

func carries(codes ...uint32) func(data []byte) bool {
	return func(data []byte) bool {
		return slices.ContainsFunc(requests(data), func(c uint32) bool { return slices.Contains(codes, c) })
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	srv := server.ZooKeeper(t, server.ZooKeeperOptions{})
	b := newBench(t, srv)
	drivertest.Run(t, drivertest.Harness{
		Open:          b.open,
		Slow:          true,
		Parallel:      16,
		CutConnection: b.cut,
		LoseReply:     func(s driver.Store) error { b.proxy(s).LoseReply(carries(create, remove)); return nil },
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
