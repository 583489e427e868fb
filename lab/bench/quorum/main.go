//go:build linux

// Command quorum measures a contended name in three Redis servers: padlock's quorum and redsync,
// which both need two of the three. It starts the servers itself. Package bench describes the
// method.
package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
	"github.com/padlock-go/padlock/stores/quorum"
	"github.com/padlock-go/padlock/stores/redisstore"
)

// plan says how much is measured.
type plan struct {
	trial      time.Duration
	contenders []int
}

var bench = measure.Bench[plan]{
	Name: "quorum", Rounds: 5, Start: start,
	Plan: plan{6 * time.Second, []int{1, 2, 8, 20, 50}},
}

func main() { bench.Main() }

// hold is how long a contender keeps the lock.
const hold = 5 * time.Millisecond

const ours, peer = "padlock quorum", "redsync"

// start returns the experiments. In each, n clients lock and unlock one name repeatedly.
func start(r *measure.Run, p *plan) (all []*measure.Experiment, err error) {
	var addrs []string
	if err := r.Try(func(t testing.TB) {
		for range 3 {
			addrs = append(addrs, server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "no"}}).Addr())
		}
	}); err != nil {
		return nil, err
	}
	for _, n := range p.contenders {
		least := 1.0
		if n < 8 {
			least = 0.8
		}
		all = append(all, &measure.Experiment{
			Name: fmt.Sprintf("three Redis servers, holds of %v, %d contenders", hold, n),
			Columns: []string{
				"locks/s", "served", "fewest",
				"longest ms", "violations",
			},
			Base: peer, Ratio: "locks/s",
			Rows: trial.Rows(peers(addrs), 1, func(c *trial.Peer) (measure.Figures, error) {
				return c.Compete(n, p.trial, 0, hold, nil)
			}),
			Targets: []measure.Target{
				{Row: ours, Column: "locks/s", Base: peer, AtLeast: least},
				{Row: ours, Column: "served", AtLeast: float64(n)},
			},
		})
	}
	return all, nil
}

// peers are padlock and redsync, each client with its own connections. redsync has its default
// delays between tries.
func peers(addrs []string) []trial.Peer {
	ofQuorum := func(opts ...quorum.Option) func(*trial.Counter) (*trial.Client, error) {
		return func(*trial.Counter) (*trial.Client, error) {
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
	}
	return []trial.Peer{
		{Name: peer, In: 1, Open: func(*trial.Counter) (*trial.Client, error) { return openRedsync(addrs), nil }},
		{Name: ours, In: 1, Open: ofQuorum()},
		{Name: ours + ", no fences", In: 1, Open: ofQuorum(quorum.NoFences())},
	}
}

func openRedsync(addrs []string) *trial.Client {
	var pools []redis.Pool
	var clients []*goredis9.Client
	for _, addr := range addrs {
		c := goredis9.NewClient(&goredis9.Options{Addr: addr})
		pools, clients = append(pools, goredis.NewPool(c)), append(clients, c)
	}
	rs := redsync.New(pools...)
	return trial.NewClient(func() (err error) {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return err
	}, func(ctx context.Context, name string) (func() error, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(trial.TTL), redsync.WithTries(1<<30))
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error { _, err := m.UnlockContext(context.Background()); return err }, nil
	})
}
