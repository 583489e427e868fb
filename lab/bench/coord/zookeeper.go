//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/zkstore"
)

const (
	zkLock    = "go-zookeeper Lock"
	zkOurs    = "zkstore"
	zkNoFence = "zkstore, fences=no"
	zkHop     = "zk-watch"
)

// sessionTimeout is the session timeout of all peers.
const sessionTimeout = 20 * time.Second

// zooKeeper is a server, which starts when it is asked for its address.
type zooKeeper struct{ addr func() (string, error) }

func (z *zooKeeper) peers() []trial.Peer {
	store := func(client func(driver.Store) *trial.Client, opts ...zkstore.Option) func(*trial.Counter) (*trial.Client, error) {
		return trial.Opens(client, func() (*zkstore.Store, error) {
			addr, err := z.addr()
			if err != nil {
				return nil, err
			}
			return zkstore.Open(context.Background(), zkstore.Config{Servers: []string{addr}}, append(opts, zkstore.SessionTimeout(sessionTimeout))...)
		})
	}
	return []trial.Peer{
		{Name: zkHop, In: drains, Open: z.watches},
		{Name: zkLock, In: pairs | drains | crowds, Open: z.lock},
		{Name: zkNoFence, In: pairs, Open: store(trial.Driver, zkstore.NoFences())},
		{Name: zkOurs, In: pairs, Open: store(trial.Driver)},
		{Name: zkNoFence, In: drains | crowds, Open: store(trial.Face, zkstore.NoFences())},
		{Name: zkOurs, In: drains | crowds, Open: store(trial.Face)},
	}
}

func (z *zooKeeper) connect() (*zk.Conn, error) {
	addr, err := z.addr()
	if err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogInfo(false))
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

// experiments returns those of ZooKeeper. In a drain each waiter has a session of its own.
func (z *zooKeeper) experiments(p *plan) []*measure.Experiment {
	s := service{name: "ZooKeeper", plan: p, peers: z.peers(), hop: zkHop, queued: 250 * time.Millisecond}
	pair := func(n int) *measure.Experiment {
		e := s.pairs(n, zkLock, "us",
			measure.Target{Row: zkNoFence, Base: zkLock, AtMost: 1.05}, measure.Target{Row: zkOurs, Base: zkLock, AtMost: 1.25})
		e.Name += fmt.Sprintf(", %d goroutines", n)
		return e
	}
	return []*measure.Experiment{
		pair(1), pair(16),
		s.drains("total_ms", measure.Target{Row: zkOurs, Base: zkHop, AtMost: 1.6}, measure.Target{Row: zkNoFence, Base: zkHop, AtMost: 1.6}),
		s.crowds(zkLock, measure.Target{Row: zkOurs, Base: zkLock, AtMost: 1}),
	}
}
