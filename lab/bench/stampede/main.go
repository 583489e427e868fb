//go:build linux

// Command stampede measures caches when many callers in four processes ask for the same missing
// value. It measures how often the value is made and how long the callers wait. It compares package
// stampede with x/sync/singleflight, go-redis/cache and rueidisaside. It starts its own Redis.
// Package bench describes the method; `make bench-stampede` runs the command.
package main

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// plan says how much is measured.
type plan struct {
	processes int
	callers   int           // callers in each process
	takes     time.Duration // how long the function takes
	rate      int           // calls per second, in each process
	lasts     time.Duration
	ttl       time.Duration // TTL of the values in two kinds of trials: with steady calls, and with the slow function
	slow      time.Duration // how long the slow function takes: longer than lease and TTL
	killAfter time.Duration // time from the start of the function to the kill
}

var benchmark = measure.Bench[plan]{
	Name: "stampede", Rounds: 5,
	Plan: plan{
		processes: 4, callers: 50, takes: 200 * time.Millisecond,
		rate: 500, lasts: 10 * time.Second, ttl: time.Second, slow: 2500 * time.Millisecond, killAfter: time.Second,
	},
	Start: func(r *measure.Run, p *plan) ([]*measure.Experiment, error) {
		b := &bench{plan: *p}
		err := r.Try(func(t testing.TB) { b.redis = startRedis(t) })
		return b.experiments(), err
	},
}

func main() {
	trial.PlayChild(play)
	benchmark.Main()
}

func startRedis(t testing.TB) string { return server.Redis(t, server.RedisOptions{}).Addr() }
