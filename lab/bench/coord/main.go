//go:build linux

// Command coord measures padlock's locks in etcd. For comparison, it also measures the locks of
// etcd's own client, and the bare requests that any lock in etcd needs. It starts the servers
// itself. Package bench describes the method; `make bench-coord` runs the command.
package main

import (
	"flag"
	"io"
	"os"
	"time"

	"github.com/padlock-go/padlock/lab/bench/host"
	"github.com/padlock-go/padlock/lab/bench/measure"
)

// plan says how much is measured.
type plan struct {
	rounds  int
	pairs   int           // how often a name is taken and released in a trial
	before  int           // for the row etcdAged: how often the name was locked before a trial
	waiters int           // waiters of a drain
	holds   int           // how many locks are held at once
	settle  time.Duration // how long it takes until every hold has been renewed
	idle    time.Duration
}

var (
	full  = plan{5, 2000, 10_000, 64, 10_000, 25 * time.Second, 40 * time.Second}
	quick = plan{1, 200, 1000, 16, 1000, 25 * time.Second, 20 * time.Second}
)

// An engine is one server with the experiments that are made on it. For a new server, add a file
// with an engine, and a line to engines.
type engine interface {
	start(h *host.Host) error
	experiments(p *plan) []*measure.Experiment
	close()
}

func engines() []engine { return []engine{&etcd{}} }

func main() {
	f := measure.DefineFlags("experiment")
	f.DefineQuick("a minute", full.rounds, quick.rounds)
	flag.Parse()
	p := full
	if f.Quick {
		p = quick
	}
	p.rounds = f.Rounds(p.rounds)
	h := &host.Host{}
	err := run(h, &p, engines(), os.Stdout, os.Stderr, f.Only, f.JSON)
	h.End()
	measure.ExitIf("coord", err)
}

// run runs the experiments of all engines and prints them. A missed target is not an error.
func run(h *host.Host, p *plan, all []engine, out, progress io.Writer, only string, asJSON bool) error {
	report, err := measure.NewReport(out, progress, only, asJSON)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := e.start(h); err != nil {
			return err
		}
		for _, x := range e.experiments(p) {
			report.Run(x, p.rounds, nil)
		}
		e.close()
	}
	return report.End()
}
