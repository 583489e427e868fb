//go:build linux

// Command redis measures locks in Redis: padlock's, those of other libraries, and the best that the
// server and the machine can do. It starts its own Redis. Package bench describes the method; `make
// bench-redis` runs the command.
package main

import (
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

var benchmark = measure.Bench[plan]{
	Name: "redis", Rounds: 5,
	Plan: plan{
		trial: 500 * time.Millisecond, queued: 120 * time.Millisecond, steady: time.Second, grace: 5 * time.Second,
		blocked: 10 * time.Second, settle: 2 * time.Second,
		goroutines: 64, waiters: 64, processes: 16,
		quorum: 6 * time.Second, contenders: []int{1, 2, 8, 20, 50}, blockers: 50, holds: 10_000, ttl: 30 * time.Second, watched: 30 * time.Second,
	},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		b := &bench{plan: *p, three: sync.OnceValues(func() ([]string, error) { return startThree(r) })}
		if err := r.Try(func(t testing.TB) { b.rig = newRig(t) }); err != nil {
			return nil, err
		}
		return b.experiments(), nil
	},
}

func main() {
	trial.PlayChild(obey)
	benchmark.Main()
}

// obey is the function of a process of a trial.
var obey = trial.Obey(func(addr string) ([]trial.Peer, error) {
	return peers(&rig{addr: addr}), nil
})

func (b *bench) experiments() (all []*measure.Experiment) {
	p := &b.plan
	all = append(all, b.pinned(), b.uncontended(p.goroutines), b.drain(p.waiters, true), b.drain(p.waiters, false), b.procs(p.processes))
	for _, n := range p.contenders {
		all = append(all, b.quorum(n))
	}
	return append(all, b.blockedProcs(p.blockers), b.renewals(p.holds, p.ttl, p.watched))
}
