//go:build linux

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// quorumHold is how long a contender for three servers keeps the lock.
const quorumHold = 5 * time.Millisecond

// quorum compares padlock's quorum with redsync, on three servers of which both need two: n clients
// lock and unlock one name repeatedly.
func (b *bench) quorum(n int) *measure.Experiment {
	least := 1.0
	if n < 8 {
		least = 0.8
	}
	return &measure.Experiment{
		Name:    fmt.Sprintf("three Redis servers, holds of %v, %d contenders", quorumHold, n),
		Columns: []string{"locks/s", "served", "fewest", "longest ms", "violations"},
		Base:    "redsync", Ratio: "locks/s",
		Rows: trial.Rows(b.quorumPeers(), 1, func(c *trial.Peer) (measure.Figures, error) {
			return c.Compete(n, b.plan.quorum, 0, quorumHold, nil)
		}),
		Targets: []measure.Target{
			{Row: oursQuorum, Column: "locks/s", Base: "redsync", AtLeast: least},
			{Row: oursQuorum, Column: "served", AtLeast: float64(n)},
		},
	}
}

const oursQuorum = "padlock quorum"

// quorumPeers are redsync and padlock, each client with its own connections.
func (b *bench) quorumPeers() []trial.Peer {
	ours := func(addrs []string, opts ...quorum.Option) (*trial.Client, error) {
		var members []driver.Store
		for _, addr := range addrs {
			s, err := redisstore.Open(context.Background(), redisstore.Config{Addrs: []string{addr}})
			if err != nil {
				return nil, err
			}
			members = append(members, s)
		}
		q, err := quorum.New(quorum.Majority, members, opts...)
		if err != nil {
			return nil, err
		}
		return trial.Face(q), nil
	}
	peer := func(name string, open func(addrs []string) (*trial.Client, error)) trial.Peer {
		return trial.Peer{Name: name, In: 1, Open: func(*trial.Counter) (*trial.Client, error) {
			addrs, err := b.three()
			if err != nil {
				return nil, err
			}
			return open(addrs)
		}}
	}
	return []trial.Peer{
		peer("redsync", func(addrs []string) (*trial.Client, error) {
			var clients []*redis.Client
			for _, addr := range addrs {
				clients = append(clients, redis.NewClient(&redis.Options{Addr: addr}))
			}
			return redsyncOn(clients...), nil
		}),
		peer(oursQuorum, func(addrs []string) (*trial.Client, error) { return ours(addrs) }),
		peer(oursQuorum+", no fences", func(addrs []string) (*trial.Client, error) { return ours(addrs, quorum.NoFences()) }),
	}
}

// startThree starts three servers.
func startThree(r *measure.Run) (addrs []string, err error) {
	return addrs, r.Try(func(t testing.TB) {
		for range 3 {
			addrs = append(addrs, newRig(t).addr)
		}
	})
}
