//go:build linux

// Command coord measures padlock's locks in etcd. For comparison, it also measures the locks of
// etcd's own client, and the bare requests that any lock in etcd needs. It starts the server
// itself. Package bench describes the method; `make bench-coord` runs the command.
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
	before  int           // for the row aged: how often the name was locked before a trial
	waiters int           // waiters of a drain
}

var bench = measure.Bench[plan]{
	Name: "coord", Rounds: 5, Start: start,
	Plan: plan{time.Second, 10_000, 64},
}

func main() { bench.Main() }

func start(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
	e := etcd{}
	if err := r.Try(func(t testing.TB) { e.addr = server.Etcd(t, server.EtcdOptions{}).Addr() }); err != nil {
		return nil, err
	}
	peers := e.peers(p)
	return []*measure.Experiment{
		{
			Name: "pair, etcd", Columns: trial.PairColumns[:2],
			Rows: trial.Rows(peers, pairs, func(c *trial.Peer) (measure.Figures, error) { return c.Pairs(1, p.trial, nil) }),
			Base: bare, Ratio: "p50 us",
			Targets: []measure.Target{
				{Row: ours, Column: "p50 us", Base: bare, AtMost: 1.15},
				{Row: ours, Column: "p50 us", Base: mutex, AtMost: 1},
				{Row: aged, Column: "p50 us", Base: ours, AtMost: 1.1},
			},
		},
		{
			Name:    fmt.Sprintf("drain, etcd, %d waiters", p.waiters),
			Columns: []string{"total_ms", "hop us"},
			Rows: trial.Rows(peers, drains, func(c *trial.Peer) (measure.Figures, error) {
				clients := p.waiters
				if c.Name == hop {
					clients = 1
				}
				return c.Drain(p.waiters, clients, time.Duration(p.waiters)*30*time.Millisecond, nil)
			}),
			Base: hop, Ratio: "hop us",
			Targets: []measure.Target{
				{Row: ours, Column: "hop us", Base: hop, AtMost: 1.6},
				{Row: ours, Column: "hop us", Base: mutex, AtMost: 1},
			},
		},
		{
			Name:    fmt.Sprintf("crowd, etcd, %d goroutines of one process", p.waiters),
			Columns: []string{"total_ms"},
			Rows:    trial.Rows(peers, crowds, func(c *trial.Peer) (measure.Figures, error) { return c.Crowd(p.waiters, nil) }),
			Base:    mutex, Ratio: "total_ms",
			Targets: []measure.Target{{Row: ours, Column: "total_ms", Base: mutex, AtMost: 0.7}},
		},
	}, nil
}
