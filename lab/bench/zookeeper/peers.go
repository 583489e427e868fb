//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/zkstore"
)

const (
	peer    = "go-zookeeper Lock"
	ours    = "zkstore"
	noFence = "zkstore, fences=no"
	hop     = "zk-watch"
)

const (
	pairs  trial.Tables = 1 << iota // locks that nobody else wants
	drains                          // a queue of clients
	crowds                          // many goroutines of one process
)

// sessionTimeout is the session timeout of all peers.
const sessionTimeout = 20 * time.Second

// zooKeeper is a running server.
type zooKeeper struct{ addr string }

func (z *zooKeeper) peers() []trial.Peer {
	store := func(client func(*zkstore.Store) *trial.Client, opts ...zkstore.Option) func(*trial.Counter) (*trial.Client, error) {
		return func(*trial.Counter) (*trial.Client, error) {
			s, err := zkstore.Open(context.Background(), zkstore.Config{Servers: []string{z.addr}}, append(opts, zkstore.SessionTimeout(sessionTimeout))...)
			if err != nil {
				return nil, err
			}
			return client(s), nil
		}
	}
	driver := func(s *zkstore.Store) *trial.Client { return trial.Driver(s) }
	face := func(s *zkstore.Store) *trial.Client { return trial.Face(s) }
	return []trial.Peer{
		{Name: hop, In: drains, Open: z.watches},
		{Name: peer, In: pairs | drains | crowds, Open: z.lock},
		{Name: noFence, In: pairs | drains, Open: store(driver, zkstore.NoFences())},
		{Name: ours, In: pairs | drains, Open: store(driver)},
		{Name: noFence, In: crowds, Open: store(face, zkstore.NoFences())},
		{Name: ours, In: crowds, Open: store(face)},
	}
}

func (z *zooKeeper) connect() (*zk.Conn, error) {
	conn, events, err := zk.Connect([]string{z.addr}, sessionTimeout, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn, nil
}

// lock opens the type Lock of the library go-zookeeper.
func (z *zooKeeper) lock(*trial.Counter) (*trial.Client, error) {
	conn, err := z.connect()
	if err != nil {
		return nil, err
	}
	return trial.NewClient(func() error { conn.Close(); return nil }, func(_ context.Context, name string) (func() error, error) {
		l := zk.NewLock(conn, "/peer/"+name, zk.WorldACL(zk.PermAll))
		return l.Unlock, l.Lock()
	}), nil
}

// watches measure hand-overs without locks: each session watches a node, and when that node is
// gone, it deletes the node that the next session watches.
func (z *zooKeeper) watches(*trial.Counter) (*trial.Client, error) {
	stem, n := "/"+trial.NewName(), 0
	var conns []*zk.Conn
	return &trial.Client{
		Lock: func(string) (trial.Lock, error) {
			conn, err := z.connect()
			if err != nil {
				return nil, err
			}
			conns = append(conns, conn)
			mine, before := fmt.Sprint(stem, n), fmt.Sprint(stem, n-1)
			_, err = conn.Create(mine, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			var gone <-chan zk.Event
			if n++; n == 1 {
				first := make(chan zk.Event, 1)
				first <- zk.Event{}
				gone = first
			} else if err == nil {
				_, _, gone, err = conn.GetW(before)
			}
			return func(context.Context) (func() error, error) {
				e := <-gone
				return func() error { return conn.Delete(mine, -1) }, e.Err
			}, err
		},
		Close: func() error {
			return trial.Together(len(conns), func(i int) error { conns[i].Close(); return nil })
		},
	}, nil
}

var received = regexp.MustCompile(`Received: (\d+)`)

// packets is a meter of the requests that the server has received.
func (z *zooKeeper) packets(*trial.Page) trial.Meter {
	count := func() (int, error) {
		said, err := server.ZooKeeperSays(context.Background(), z.addr, "srvr")
		m := received.FindStringSubmatch(said)
		if m == nil {
			return 0, errors.Join(err, fmt.Errorf("srvr says %q", said))
		}
		return strconv.Atoi(m[1])
	}
	return func() (func(measure.Figures, int) error, error) {
		before, err := count()
		return func(f measure.Figures, n int) error {
			after, err := count()
			f["packets"] = float64(after-before) / float64(n)
			return err
		}, err
	}
}
