//go:build linux

// Command zookeeper measures locks in ZooKeeper: padlock's, those of the client go-zookeeper, and
// the bare hop from a deleted node to the process that watches it. It starts the server itself.
// Package bench describes the method; `make bench-zookeeper` runs the command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/integration/bench/host"
	"github.com/padlock-go/padlock/internal/integration/bench/measure"
	"github.com/padlock-go/padlock/internal/server"
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

// A bench has the server.
type bench struct {
	plan plan
	addr string
	runs int // number of drains so far; each drain uses its own names
}

func main() {
	short := flag.Bool("quick", false, "measure less, in half a minute")
	rounds := flag.Int("rounds", 0, "rounds instead of 7, or of 1 with -quick")
	only := flag.String("only", "", "experiments whose name matches this `regexp`")
	asJSON := flag.Bool("json", false, "write the figures of every round as JSON, one object for each experiment")
	flag.Parse()
	b := &bench{plan: full}
	if *short {
		b.plan = quick
	}
	if *rounds > 0 {
		b.plan.rounds = *rounds
	}
	h := &host.Host{}
	err := b.run(h, os.Stdout, os.Stderr, *only, *asJSON)
	h.End()
	if err != nil {
		fmt.Fprintln(os.Stderr, "zookeeper:", err)
		os.Exit(1)
	}
}

// run runs the experiments and prints them. A missed target is not an error.
func (b *bench) run(h *host.Host, out, progress io.Writer, only string, asJSON bool) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if err := h.Try(func(t testing.TB) { b.addr = server.ZooKeeper(t, server.ZooKeeperOptions{Tick: time.Second}).Addr() }); err != nil {
		return err
	}
	var results []*measure.Result
	for _, e := range []*measure.Experiment{b.pairs(1), b.pairs(16), b.drains()} {
		if !chosen.MatchString(e.Name) {
			continue
		}
		r := e.Run(b.plan.rounds, progress)
		results = append(results, r)
		if asJSON {
			err = errors.Join(err, r.JSON(out))
		} else {
			r.Print(out)
		}
	}
	if !asJSON {
		measure.PrintTargets(out, results)
	}
	return err
}
