//go:build linux

// Command redis measures locks in Redis: padlock's, those of other libraries, and the best that the
// server and the machine can do. It starts its own Redis. Package bench describes the method; `make
// bench-redis` runs the command.
package main

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

var benchmark = measure.Bench[plan]{
	Name: "redis", Rounds: 5, QuickRounds: 1,
	Full: plan{
		trial: 500 * time.Millisecond, queued: 120 * time.Millisecond, steady: time.Second, grace: 5 * time.Second,
		blocked: 10 * time.Second, settle: 2 * time.Second,
		goroutines: []int{16, 64, 256}, waiters: []int{2, 16, 64, 256}, workers: []int{16}, processes: []int{2, 16},
		blockers: 50, readers: 1000, holds: 10_000, ttls: []time.Duration{3 * time.Second, 30 * time.Second}, watched: 30 * time.Second,
	},
	// Quick measures little, and only checks that every part of the benchmark works.
	Quick: plan{
		trial: 100 * time.Millisecond, queued: 120 * time.Millisecond, steady: 200 * time.Millisecond, grace: time.Second,
		blocked: time.Second, settle: 500 * time.Millisecond,
		goroutines: []int{64}, waiters: []int{16}, workers: []int{4}, processes: []int{4}, blockers: 10, readers: 100,
		holds: 1000, ttls: []time.Duration{3 * time.Second}, watched: 3 * time.Second,
	},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		b := &bench{plan: *p}
		var failed error
		if err := r.Try(func(t testing.TB) { b.rig, failed = newRig(t) }); err != nil || failed != nil {
			return nil, errors.Join(err, failed)
		}
		return b.experiments(), nil
	},
}

func main() {
	trial.PlayChild(obey)
	benchmark.Main()
}

func (b *bench) experiments() (all []*measure.Experiment) {
	for _, awake := range []bool{false, true} {
		all = append(all, b.pinned(awake))
	}
	for _, n := range b.plan.goroutines {
		all = append(all, b.uncontended(n))
	}
	for _, ownClients := range []bool{true, false} {
		for _, n := range b.plan.waiters {
			all = append(all, b.drain(n, ownClients))
		}
		for _, n := range b.plan.workers {
			all = append(all, b.steady(n, ownClients))
		}
	}
	for _, n := range b.plan.processes {
		all = append(all, b.procs(n))
	}
	all = append(all, b.permits(), b.slotQueue(64), b.readers(b.plan.readers), b.blockedProcs(b.plan.blockers))
	for _, ttl := range b.plan.ttls {
		all = append(all, b.renewals(b.plan.holds, ttl, b.plan.watched))
	}
	return all
}
