//go:build linux

// Command quorum measures a contended name in three Redis servers: padlock's quorum and redsync,
// which both need two of the three. It starts the servers itself. Package bench describes the
// method.
package main

import (
	"flag"
	"io"
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/bench/host"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds     int
	trial      time.Duration
	contenders []int
}

var (
	full  = plan{5, 6 * time.Second, []int{1, 2, 8, 20, 50}}
	quick = plan{1, 2 * time.Second, []int{1, 8, 50}}
)

// hold is how long a contender keeps the lock.
const hold = 5 * time.Millisecond

// A bench is one run of the benchmark, with its servers.
type bench struct {
	plan  plan
	addrs []string
	names int // number of trials so far; each trial has its own name
}

func main() {
	f := measure.DefineFlags("experiment")
	f.DefineQuick("15 s", full.rounds, quick.rounds)
	flag.Parse()
	b := &bench{plan: full}
	if f.Quick {
		b.plan = quick
	}
	b.plan.rounds = f.Rounds(b.plan.rounds)
	h := &host.Host{}
	err := b.run(h, os.Stdout, os.Stderr, f.Only, f.JSON)
	h.End()
	measure.ExitIf("quorum", err)
}

// run runs the experiments and prints them. A missed target is not an error.
func (b *bench) run(h *host.Host, out, progress io.Writer, only string, asJSON bool) error {
	report, err := measure.NewReport(out, progress, only, asJSON)
	if err != nil {
		return err
	}
	for range 3 {
		err := h.Try(func(t testing.TB) {
			b.addrs = append(b.addrs, server.Redis(t, server.RedisOptions{Args: []string{"--appendonly", "no"}}).Addr())
		})
		if err != nil {
			return err
		}
	}
	for _, n := range b.plan.contenders {
		report.Run(b.contended(n), b.plan.rounds, nil)
	}
	return report.End()
}
