//go:build linux

// Command zookeeper measures padlock's locks in ZooKeeper and those of the client go-zookeeper. For
// comparison, it also measures how long it takes until a process that watches a node learns that
// the node was deleted. It starts the server itself. Package bench describes the method; `make
// bench-zookeeper` runs the command.
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
	rounds  int
	trial   time.Duration // how long a trial of pairs takes
	waiters int
}

var (
	full  = plan{7, time.Second, 64}
	quick = plan{1, 300 * time.Millisecond, 16}
)

// A bench is one run of the benchmark, with its server.
type bench struct {
	plan plan
	addr string
	runs int // number of drains so far; each drain uses its own names
}

func main() {
	f := measure.DefineFlags("experiment")
	f.DefineQuick("half a minute", full.rounds, quick.rounds)
	flag.Parse()
	b := &bench{plan: full}
	if f.Quick {
		b.plan = quick
	}
	b.plan.rounds = f.Rounds(b.plan.rounds)
	h := &host.Host{}
	err := b.run(h, os.Stdout, os.Stderr, f.Only, f.JSON)
	h.End()
	measure.ExitIf("zookeeper", err)
}

// run runs the experiments and prints them. A missed target is not an error.
func (b *bench) run(h *host.Host, out, progress io.Writer, only string, asJSON bool) error {
	report, err := measure.NewReport(out, progress, only, asJSON)
	if err != nil {
		return err
	}
	if err := h.Try(func(t testing.TB) { b.addr = server.ZooKeeper(t, server.ZooKeeperOptions{Tick: time.Second}).Addr() }); err != nil {
		return err
	}
	for _, e := range []*measure.Experiment{b.pairs(1), b.pairs(16), b.drains(), b.crowds()} {
		report.Run(e, b.plan.rounds, nil)
	}
	return report.End()
}
