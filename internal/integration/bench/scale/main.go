//go:build linux

// Command scale measures how much one server and one process carry: the memory of a hold and of a
// free name, the cost of renewals, the effect of a restart, processes that wait, and hand-overs on
// one Redis and on a cluster of three. It starts the servers itself. Package bench describes the
// method; `make bench-scale` runs the command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/padlock-go/padlock/internal/integration/bench/measure"
)

func main() {
	p := full
	flag.IntVar(&p.holds, "holds", p.holds, "holds on Redis; other servers have a tenth of them")
	flag.DurationVar(&p.ttl, "ttl", p.ttl, "length of the leases")
	only := flag.String("only", "", "experiments whose name matches this `regexp`")
	rows := flag.String("rows", "", "rows whose name matches this `regexp`")
	asJSON := flag.Bool("json", false, "write the figures as JSON, one object for each experiment")
	flag.Parse()
	b := &bench{plan: p, progress: os.Stderr}
	if err := b.run(os.Stdout, *only, *rows, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// run makes the experiments and prints them. A missed target is no error. There is one round only,
// because each figure is a mean over many holds or over seconds.
func (b *bench) run(out io.Writer, only, rows string, asJSON bool) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(rows)
	if err != nil {
		return err
	}
	var results []*measure.Result
	for _, e := range b.experiments() {
		choose(e, wanted)
		if !chosen.MatchString(e.Name) || len(e.Rows) == 0 {
			continue
		}
		r := e.Run(1, b.progress)
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

// choose leaves those rows of e that match, and their targets.
func choose(e *measure.Experiment, wanted *regexp.Regexp) {
	var rows []measure.Row
	var targets []measure.Target
	for _, r := range e.Rows {
		if !wanted.MatchString(r.Name) {
			continue
		}
		rows = append(rows, r)
		for _, t := range e.Targets {
			if t.Row == r.Name {
				targets = append(targets, t)
			}
		}
	}
	e.Rows, e.Targets = rows, targets
}
