//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// plan says how much is measured.
type plan struct {
	trial   time.Duration // how long a trial of pairs takes
	waiters int           // waiters of a drain
}

const (
	pairs  trial.Tables = 1 << iota // a lock that nobody else wants
	drains                          // a queue of clients
	crowds                          // many goroutines of one process
)

// A service is a server with the peers that are compared on it.
type service struct {
	name   string
	plan   *plan
	peers  []trial.Peer
	hop    string        // the peer that passes a turn around, in one client
	queued time.Duration // how long waiters wait before a drain
}

// experiment returns a table whose targets are about one column.
func (s *service) experiment(name, base, column string, in trial.Tables, columns []string, targets []measure.Target, trials func(*trial.Peer) (measure.Figures, error)) *measure.Experiment {
	for i := range targets {
		targets[i].Column = column
	}
	return &measure.Experiment{Name: name, Columns: columns, Base: base, Ratio: column, Targets: targets, Rows: trial.Rows(s.peers, in, trials)}
}

// pairs measures n goroutines that lock and unlock. Each has its own name.
func (s *service) pairs(n int, base, column string, targets ...measure.Target) *measure.Experiment {
	return s.experiment("pair, "+s.name, base, column, pairs, trial.PairColumns[:2], targets, func(c *trial.Peer) (measure.Figures, error) {
		return c.Pairs(n, s.plan.trial, nil)
	})
}

// drains measures how fast a queue empties.
func (s *service) drains(column string, targets ...measure.Target) *measure.Experiment {
	name := fmt.Sprintf("drain, %s, %d waiters", s.name, s.plan.waiters)
	return s.experiment(name, s.hop, column, drains, []string{"total_ms", "hop us"}, targets, func(c *trial.Peer) (measure.Figures, error) {
		clients := s.plan.waiters
		if c.Name == s.hop {
			clients = 1
		}
		return c.Drain(s.plan.waiters, clients, s.queued, nil)
	})
}

// crowds measures many goroutines of one process that want the same name.
func (s *service) crowds(base string, targets ...measure.Target) *measure.Experiment {
	name := fmt.Sprintf("crowd, %s, %d goroutines of one process", s.name, s.plan.waiters)
	return s.experiment(name, base, "total_ms", crowds, []string{"total_ms"}, targets, func(c *trial.Peer) (measure.Figures, error) {
		return c.Crowd(s.plan.waiters)
	})
}
