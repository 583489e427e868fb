//go:build linux

// Command scale measures how much one server and one process carry: the memory of a hold and of a
// free name, the cost of renewals, the effect of a restart, processes that wait, and hand-overs on
// one Redis and on a cluster of three. It starts the servers itself. Package bench describes the
// method; `make bench-scale` runs the command.
package main

import (
	"flag"
	"io"
	"os"
	"regexp"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

func main() {
	f := measure.DefineFlags("experiment")
	p := full
	flag.IntVar(&p.holds, "holds", p.holds, "holds on Redis; other servers have a tenth of them")
	flag.DurationVar(&p.ttl, "ttl", p.ttl, "length of the leases")
	rows := flag.String("rows", "", "rows whose name matches this `regexp`")
	flag.Parse()
	b := &bench{plan: p, progress: os.Stderr}
	measure.ExitIf("scale", b.run(os.Stdout, f.Only, *rows, f.JSON))
}

// run makes the experiments and prints them. A missed target is no error. One round is enough,
// because each figure is a mean over many holds or over several seconds.
func (b *bench) run(out io.Writer, only, rows string, asJSON bool) error {
	report, err := measure.NewReport(out, b.progress, only, asJSON)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(rows)
	if err != nil {
		return err
	}
	for _, e := range b.experiments() {
		choose(e, wanted)
		if len(e.Rows) > 0 {
			report.Run(e, 1, nil)
		}
	}
	return report.End()
}

// choose removes all rows from e whose names do not match the pattern. It also removes their
// targets.
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
