package zkstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/drivertest"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

func contract(t *testing.T, srv *server.Server) {
	conn := rawConn(t, srv.Addr())
	drivertest.Run(t, drivertest.Harness{
		Open:     func(ctx context.Context) (driver.Store, error) { return openStore(ctx, srv.Addr()) },
		Slow:     true,
		Parallel: 16,
		Foreign: func(name string) (release func() error, err error) {
			l := zk.NewLock(conn, "/padlock/"+name, zk.WorldACL(zk.PermAll))
			return l.Unlock, l.Lock()
		},
	})
}

// otherPrograms: the locks of Curator and kazoo in the folder of a lock keep padlock's callers out,
// Inspect and List name them, and Break leaves them alone.
func otherPrograms(t *testing.T, srv *server.Server) {
	conn, s := rawConn(t, srv.Addr()), mustOpen(t, srv.Addr())
	for i, child := range []string{"_c_9a1c-lock-", "9a1c__lock__", "leases"} {
		name := fmt.Sprint("others ", i)
		early := request(name)
		take(t, s, early)
		path := "/padlock/others%20" + fmt.Sprint(i) + "/" + child
		flags := int32(zk.FlagEphemeralSequential)
		if child == "leases" {
			flags = 0
		}
		made, err := conn.Create(path, []byte("10.0.0.7"), flags, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Release(t.Context(), name, early.Token.Text(), 0); err != nil {
			t.Fatal(err)
		}
		for _, shared := range []bool{false, true} {
			r := request(name)
			r.Shared = shared
			var held *driver.HeldError
			if _, err := s.Acquire(t.Context(), r); !errors.As(err, &held) || len(held.Holds) != 1 || !held.Holds[0].Foreign {
				t.Fatalf("%s: Acquire, shared %v: %v", child, shared, err)
			}
		}
		st, err := s.Inspect(t.Context(), name)
		if err != nil || len(st.Holds) != 1 || !st.Holds[0].Foreign || st.Holds[0].Host != "" {
			t.Errorf("%s: Inspect: %+v, %v", child, st, err)
		}
		if _, err := s.Break(t.Context(), name, st.Fence); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Break: %v", child, err)
		}
		data, _, err := conn.Get(made)
		if err != nil || string(data) != "10.0.0.7" {
			t.Errorf("%s: it has %q, %v", child, data, err)
		}
		if err := conn.Delete(made, -1); err != nil {
			t.Fatal(err)
		}
		take(t, s, request(name))
	}
}

func contractWithoutFences(t *testing.T, srv *server.Server) {
	server.Thorough(t)
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

// faulty is the session timeout in TestFaults. There sessions end, too, but a hold must not end
// with its session because the machine is busy.
const faulty = 5 * time.Second

// patient is the session timeout in tests in which no session may end, even on a busy machine.
const patient = time.Minute

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
		return openStore(ctx, addr, zkstore.SessionTimeout(faulty))
	})
}

// cutOff keeps a store away from its server for longer than its session.
func (b *bench) cutOff(s driver.Store) error {
	p := b.Of(s)
	p.Silence(true)
	p.Cut()
	time.AfterFunc(faulty*3/2, func() { p.Silence(false) })
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
	server.Thorough(t)
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
