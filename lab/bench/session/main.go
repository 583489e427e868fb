//go:build linux

// Command session sends a hundred requests of one visitor at once. It measures how many of them
// keep their changes, and how long they take. It compares padlock's sessions, scs, gorilla/sessions
// and PHP with phpredis. It also measures PHP together with padlock. It starts its own Redis and
// PHP servers. Package bench describes the method; `make bench-session` runs the command.
package main

import (
	"errors"
	"testing"
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	requests int           // number of requests at once
	work     time.Duration // duration of each request
	spread   time.Duration
	logouts  int
	readers  int // number of slow readers
	workers  int // number of processes of each PHP server
}

var benchmark = measure.Bench[plan]{
	Name: "session", Rounds: 5,
	Plan: plan{requests: 100, work: 25 * time.Millisecond, spread: time.Second, logouts: 20, readers: 5, workers: 32},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		b := &bench{plan: *p}
		var failed error
		err := r.Try(func(t testing.TB) { b.stacks, failed = startStacks(t, r.Wants, p.workers) })
		return b.experiments(), errors.Join(err, failed)
	},
}

func main() { benchmark.Main() }
