package zkstore_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

func contract(t *testing.T, srv *server.Server) {
	drivertest.Run(t, drivertest.Harness{
		Open:     func(ctx context.Context) (driver.Store, error) { return openStore(ctx, srv.Addr()) },
		Slow:     true,
		Parallel: 16,
	})
}

func contractWithoutFences(t *testing.T, srv *server.Server) {
	drivertest.Run(t, drivertest.Harness{
		Open: func(ctx context.Context) (driver.Store, error) {
			return openStore(ctx, srv.Addr(), zkstore.NoFences(), zkstore.Root("/plain/locks"))
		},
		Slow:     true,
		Parallel: 16,
	})
}

// short is the session timeout in tests in which sessions end.
const short = 2 * time.Second

// A bench is a server with a proxy in front of it for each store.
type bench struct {
	srv *server.Server
	*server.Proxies[driver.Store]
}

func newBench(t testing.TB, srv *server.Server) *bench {
	return &bench{srv: srv, Proxies: server.NewProxies[driver.Store](t, srv.Addr())}
}

func (b *bench) open(ctx context.Context) (driver.Store, error) {
	return b.Open(func(addr string) (driver.Store, error) {
		return openStore(ctx, addr, zkstore.SessionTimeout(short))
	})
}

// cutOff keeps a store away from its server for longer than its session.
func (b *bench) cutOff(s driver.Store) error {
	p := b.Of(s)
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
		CutConnection: b.cutOff,
		LoseReply:     b.LoseReply(carries(create, remove)),
		Restart:       srv.Crash,
		Pause:         srv.Freeze,
	})
}
