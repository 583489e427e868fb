//go:build linux

// Command zookeeper measures padlock's locks in ZooKeeper and those of the client go-zookeeper. For
// comparison, it also measures how long it takes until a process that watches a node learns that
// the node was deleted. It starts the server itself. Package bench describes the method; `make
// bench-zookeeper` runs the command.
package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// plan says how much is measured.
type plan struct {
	trial   time.Duration // how long a trial of pairs takes
	waiters int
}

var bench = measure.Bench[plan]{
	Name: "zookeeper", Rounds: 7, Start: start,
	Plan: plan{time.Second, 64},
}

func main() { bench.Main() }

func start(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
	z := zooKeeper{}
	if err := r.Try(func(t testing.TB) { z.addr = server.ZooKeeper(t, server.ZooKeeperOptions{Tick: time.Second}).Addr() }); err != nil {
		return nil, err
	}
	return []*measure.Experiment{z.pairs(1, p), z.pairs(16, p), z.drains(p), z.crowds(p)}, nil
}

// pairs measures n goroutines that lock and unlock. Each has its own name.
func (z *zooKeeper) pairs(n int, p *plan) *measure.Experiment {
	return &measure.Experiment{
		Name:    fmt.Sprintf("pair, ZooKeeper, %d goroutines", n),
		Columns: trial.PairColumns[:2],
		Rows:    trial.Rows(z.peers(), pairs, func(c *trial.Peer) (measure.Figures, error) { return c.Pairs(n, p.trial, nil) }),
		Base:    peer, Ratio: "us",
		Targets: []measure.Target{
			{Row: noFence, Column: "us", Base: peer, AtMost: 1.05},
			{Row: ours, Column: "us", Base: peer, AtMost: 1.25},
		},
	}
}

var columns = []string{"total_ms", "packets"}

// drains measures how fast a queue empties. Each waiter has its own session.
func (z *zooKeeper) drains(p *plan) *measure.Experiment {
	return &measure.Experiment{
		Name:    fmt.Sprintf("drain, ZooKeeper, %d waiters", p.waiters),
		Columns: columns, Base: hop, Ratio: "total_ms",
		Rows: trial.Rows(z.peers(), drains, func(c *trial.Peer) (measure.Figures, error) {
			clients := p.waiters
			if c.Name == hop {
				clients = 1
			}
			return c.Drain(p.waiters, clients, 250*time.Millisecond, z.packets)
		}),
		Targets: []measure.Target{
			{Row: ours, Column: "total_ms", Base: hop, AtMost: 1.6}, {Row: noFence, Column: "total_ms", Base: hop, AtMost: 1.6},
		},
	}
}

// crowds measures many goroutines of one process that want the same name.
func (z *zooKeeper) crowds(p *plan) *measure.Experiment {
	return &measure.Experiment{
		Name:    fmt.Sprintf("crowd, ZooKeeper, %d goroutines of one process", p.waiters),
		Columns: columns, Base: peer, Ratio: "total_ms",
		Rows:    trial.Rows(z.peers(), crowds, func(c *trial.Peer) (measure.Figures, error) { return c.Crowd(p.waiters, z.packets(nil)) }),
		Targets: []measure.Target{{Row: ours, Column: "total_ms", Base: peer, AtMost: 1}},
	}
}
