//go:build linux

// Command stampede measures caches when many callers in four processes ask for the same missing
// value. It measures how often the value is made and how long the callers wait. It compares package
// stampede with x/sync/singleflight, go-redis/cache and rueidisaside. It starts its own Redis.
// Package bench describes the method; `make bench-stampede` runs the command.
package main

import (
	"flag"
	"io"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/host"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds    int
	processes int
	callers   int           // callers in each process
	takes     time.Duration // how long the function takes
	rate      int           // calls per second, in each process
	lasts     time.Duration
	ttl       time.Duration // TTL of the values in two kinds of trials: with steady calls, and with the slow function
	slow      time.Duration // how long the slow function takes: longer than lease and TTL
	killAfter time.Duration // time from the start of the function to the kill
}

var full = plan{
	rounds: 5, processes: 4, callers: 50, takes: 200 * time.Millisecond,
	rate: 500, lasts: 10 * time.Second, ttl: time.Second, slow: 2500 * time.Millisecond, killAfter: time.Second,
}

func main() {
	playChild()
	f := measure.DefineFlags("table")
	p := full
	flag.IntVar(&p.rounds, "rounds", p.rounds, "how often all is measured")
	rows := flag.String("rows", "", "rows whose name matches this `regexp`")
	flag.Parse()
	h := &host.Host{}
	err := run(h, p, os.Stdout, os.Stderr, f.Only, *rows, f.JSON)
	h.End()
	measure.ExitIf("stampede", err)
}

func run(h *host.Host, p plan, out, progress io.Writer, only, rows string, asJSON bool) error {
	report, err := measure.NewReport(out, progress, only, asJSON)
	if err != nil {
		return err
	}
	b := &bench{plan: p}
	if b.rows, err = regexp.Compile(rows); err != nil {
		return err
	}
	if err := h.Try(func(t testing.TB) { b.redis = startRedis(t) }); err != nil {
		return err
	}
	for _, e := range b.experiments() {
		report.Run(e, p.rounds, nil)
	}
	return report.End()
}

func startRedis(t testing.TB) string { return server.Redis(t, server.RedisOptions{}).Addr() }
